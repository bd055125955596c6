"""`treeline distributor`, `losses`, `trace` and `verify`.

Of this layer's rooms it imports shell.
"""
