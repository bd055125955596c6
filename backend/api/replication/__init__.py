"""Replication of clusters.

Of this layer's rooms it imports frame.
"""
