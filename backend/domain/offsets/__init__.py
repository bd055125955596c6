"""How far groups have come, what is carried over the tree, and when a group's offsets may be set.

Of this layer's rooms it imports base, names and records.
"""
