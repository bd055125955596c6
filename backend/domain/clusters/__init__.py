"""Clusters, the properties of clients that reach them, and the adoption of what they hold already.

Of this layer's rooms it imports base, distribution, names and topics.
"""
