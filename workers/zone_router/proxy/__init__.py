"""Proxy: answers the clients of its zone, and exchanges their batches with mains through object storage."""
