"""The reconcile loop: what topics are wanted, adopted, and recorded.

It imports no other room of this layer.
"""
