"""Consumer groups' progress: what the offset map carries over the tree, and when a committed offset may be set.

Of this layer's rooms it imports base, names and records.
"""
