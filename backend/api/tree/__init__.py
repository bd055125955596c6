"""REST resources of the tree and its distributors.

Of this layer's rooms it imports frame.
"""
