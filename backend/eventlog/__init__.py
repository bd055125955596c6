"""Event log on PostgreSQL: append, read, follow and verify events, and remember answers for repeated requests."""
