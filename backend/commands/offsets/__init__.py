"""`treeline offsets`.

Of this layer's rooms it imports shell.
"""
