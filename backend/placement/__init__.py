"""The placement solver: it decides which brokers hold which replicas, in which order, and what that costs.

Pure computation: no Kafka, no Spark, no database.
"""
