"""Who runs a unit: leases, the processes that hold them, and what happens when they end or are fenced.

It imports no other room of this layer.
"""
