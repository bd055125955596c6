"""Distributors: shifts, units, barriers, checkpoints, and routes of lost clusters.

Of this layer's rooms it imports leases.
"""
