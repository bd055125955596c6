"""Schemas and their distributor.

Of this layer's rooms it imports frame.
"""
