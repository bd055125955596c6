"""Clusters, the presence of their brokers, adoptions, and the replica defaults of new topics.

Of this layer's rooms it imports base.
"""
