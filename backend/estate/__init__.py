"""Local estate: real brokers, PostgreSQL and Valkey, and the control plane on them, with their supervisor."""
