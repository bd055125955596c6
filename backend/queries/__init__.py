"""Queries: what the API, the console and workers read from projections and observations."""
