"""Spark data sources on confluent-kafka: logs of topics, and committed offsets."""
