"""CLI command `treeline overview`.

Of this layer's rooms it imports shell.
"""
