"""REST resources of events, operations and undo.

Of this layer's rooms it imports frame.
"""
