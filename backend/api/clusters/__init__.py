"""REST routes of clusters and adoptions.

Of this layer's rooms it imports frame.
"""
