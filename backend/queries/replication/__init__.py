"""Last observed replication of clusters.

Of this layer's rooms it imports base and history.
"""
