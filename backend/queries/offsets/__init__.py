"""Committed offsets as they are translated and set.

It imports no other room of this layer.
"""
