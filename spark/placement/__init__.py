"""Replica placement in pieces, on Spark."""
