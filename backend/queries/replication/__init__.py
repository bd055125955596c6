"""What was last seen of clusters' replicas.

Of this layer's rooms it imports base and history.
"""
