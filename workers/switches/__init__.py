"""Carrying out switches: one thread each, resumed from the event log by whoever has the lease."""
