"""Observations at earlier positions, measures over time, and long-running operations.

Of this layer's rooms it imports base, clusters, distribution, offsets and tree.
"""
