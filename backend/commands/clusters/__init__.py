"""`treeline adopt`: the command for existing topics of clusters.

Of this layer's rooms it imports shell.
"""
