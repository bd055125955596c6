"""Wording on pages: figures, fields, names and events.

It imports no other room of this layer.
"""
