"""Command `treeline drill`.

Of this layer's rooms it imports shell.
"""
