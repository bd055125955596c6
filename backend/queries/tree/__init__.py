"""The tree as it is and as it was.

It imports no other room of this layer.
"""
