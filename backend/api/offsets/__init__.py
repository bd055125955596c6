"""REST routes of committed offsets and their reset.

Of this layer's rooms it imports frame.
"""
