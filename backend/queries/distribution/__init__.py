"""Distributors as they run, leases, losses, routes, and what streams move.

Of this layer's rooms it imports base, clusters, tenants and tree.
"""
