"""Leases of tasks: the processes that hold them, and what happens when those end or are fenced.

It imports no other room of this layer.
"""
