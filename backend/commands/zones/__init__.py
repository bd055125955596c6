"""CLI command `treeline zones`.

Of this layer's rooms it imports shell.
"""
