"""Computation, execution and rollback of placements."""
