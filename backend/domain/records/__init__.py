"""What a record carries and what logs say of it: flags, origin, births, positions; what an edge decides.

It imports no other room of this layer.
"""
