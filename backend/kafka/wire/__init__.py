"""Kafka's protocol as bytes: requests, responses and record batches, for the zone router."""
