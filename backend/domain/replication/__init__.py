"""What one look at a cluster's replicas says, and what to do about it.

It imports no other room of this layer.
"""
