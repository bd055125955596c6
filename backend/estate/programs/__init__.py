"""The programs of an estate: brokers, PostgreSQL, Valkey, nodes of the zone router, and their files.

It imports no other room of this layer.
"""
