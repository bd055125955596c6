"""Kafka clients: configuration and secrets, errors, cluster identity, protocol requests of our own.

It imports no other room of this layer.
"""
