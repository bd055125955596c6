"""Avro, Protobuf and JSON Schema: parsing, writing, and compatibility.

It imports no other room of this layer.
"""
