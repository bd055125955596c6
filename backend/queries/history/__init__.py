"""What was seen at earlier positions, and long operations.

Of this layer's rooms it imports base, clusters, distribution, offsets and tree.
"""
