"""PostgreSQL, sample events and random histories."""
