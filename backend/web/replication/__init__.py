"""Pages of clusters' replication, the list of placements, and placement policies.

Of this layer's rooms it imports forms, frame, placement and words.
"""
