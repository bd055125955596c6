"""Commands `treeline switch` and `treeline discovery`.

Of this layer's rooms it imports shell.
"""
