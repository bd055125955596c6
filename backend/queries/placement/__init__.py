"""Placements, their runs and policies.

It imports no other room of this layer.
"""
