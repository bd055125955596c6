"""Brokers, topics and records, and Kafka's own tools."""
