"""Queries about switches, their progress, and the clients that report to discovery.

Of this layer's rooms it imports base, clusters and tree.
"""
