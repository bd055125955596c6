"""Avro, Protobuf and JSON Schema: parsing, writing, and what changes mean.

It imports no other room of this layer.
"""
