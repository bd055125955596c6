"""Tests that need brokers: estates, distributors, groups, Spark, nodes of the zone router."""
