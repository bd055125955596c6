"""Clusters, their brokers' presence, adoptions, and what new topics get for replicas.

Of this layer's rooms it imports base.
"""
