"""`treeline switch` and `discovery`.

Of this layer's rooms it imports shell.
"""
