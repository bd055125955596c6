"""How pages write figures, fields, names and events.

It imports no other room of this layer.
"""
