"""Clusters and adoption.

Of this layer's rooms it imports frame.
"""
