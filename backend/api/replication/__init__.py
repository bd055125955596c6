"""REST routes of clusters' replication.

Of this layer's rooms it imports frame.
"""
