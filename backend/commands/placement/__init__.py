"""The commands of `treeline placement`.

Of this layer's rooms it imports distribution and shell.
"""
