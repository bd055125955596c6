"""How a cluster gets to a plan: rounds of moves, how far they are, and whether the plan still fits.

It imports no other room of this layer.
"""
