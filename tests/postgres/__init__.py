"""Tests that need PostgreSQL: the event log, the REST API, the console without a browser, the command line."""
