"""`treeline schemas`.

Of this layer's rooms it imports shell.
"""
