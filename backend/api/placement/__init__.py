"""Placements, their runs and policies.

Of this layer's rooms it imports frame.
"""
