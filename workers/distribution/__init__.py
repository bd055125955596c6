"""Distributors: worker sessions, tasks, barriers, checkpoints, and routes of lost clusters.

Of this layer's rooms it imports leases.
"""
