"""Spark data sources on confluent-kafka: records of topic logs, and committed offsets."""
