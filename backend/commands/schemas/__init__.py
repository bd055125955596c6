"""`treeline schemas`: commands for schema registries.

Of this layer's rooms it imports shell.
"""
