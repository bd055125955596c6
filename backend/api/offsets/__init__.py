"""Offsets.

Of this layer's rooms it imports frame.
"""
