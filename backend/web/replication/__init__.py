"""Replication of clusters, the list of placements, and policies.

Of this layer's rooms it imports forms, frame, placement and words.
"""
