"""`treeline up`, `down` and what belongs to the local estate.

Of this layer's rooms it imports shell.
"""
