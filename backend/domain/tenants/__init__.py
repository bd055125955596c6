"""Tenants with their instances and environments, streams, and applications.

Of this layer's rooms it imports base, names, offsets, records and topics.
"""
