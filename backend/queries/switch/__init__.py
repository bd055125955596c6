"""Switches, their progress, and the clients that discovery knows.

Of this layer's rooms it imports base, clusters and tree.
"""
