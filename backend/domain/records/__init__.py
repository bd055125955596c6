"""Records and logs: copy flags, origins, incarnations, position marks, and the copy decision of an edge.

It imports no other room of this layer.
"""
