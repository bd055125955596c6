"""Replica placement of large clusters on Spark, in pieces."""
