"""`treeline up`, `down` and other commands for the local estate.

Of this layer's rooms it imports shell.
"""
