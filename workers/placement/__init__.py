"""Execution and rollback of placements."""
