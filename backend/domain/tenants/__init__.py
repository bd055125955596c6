"""Tenants, their streams, and their applications.

Of this layer's rooms it imports base, names, offsets, records and topics.
"""
