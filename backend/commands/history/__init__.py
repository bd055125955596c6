"""Commands `treeline events`, `projections` and `undo`.

Of this layer's rooms it imports shell.
"""
