"""`treeline events` and `undo`.

Of this layer's rooms it imports shell.
"""
