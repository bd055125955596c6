"""`treeline adopt`.

Of this layer's rooms it imports shell.
"""
