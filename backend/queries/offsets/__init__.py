"""Committed offsets of groups, and what the committers set on the other clusters.

It imports no other room of this layer.
"""
