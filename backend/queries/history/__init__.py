"""Observations at earlier positions, and long-running operations.

Of this layer's rooms it imports base, clusters, distribution, offsets and tree.
"""
