"""Nodes of the zone router, their reports, and captured traffic."""
