"""Losses and traces.

Of this layer's rooms it imports frame.
"""
