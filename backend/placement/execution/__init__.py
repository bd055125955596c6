"""Execution of plans: the next moves, their progress, and drift between a plan and its cluster.

It imports no other room of this layer.
"""
