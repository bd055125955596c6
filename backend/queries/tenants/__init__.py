"""Tenants, streams, and applications with their groups and secrets.

Of this layer's rooms it imports access, base and clusters.
"""
