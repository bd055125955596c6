"""Command `treeline messages`.

Of this layer's rooms it imports shell.
"""
