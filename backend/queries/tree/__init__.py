"""The tree, now and at earlier positions.

It imports no other room of this layer.
"""
