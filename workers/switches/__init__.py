"""Runs switches, one thread each; the process with the lease resumes a switch from the event log."""
