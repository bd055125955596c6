"""Kafka clusters, the properties of clients that connect to them, and the adoption of their existing topics.

Of this layer's rooms it imports base, distribution, names and topics.
"""
