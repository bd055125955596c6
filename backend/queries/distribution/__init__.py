"""Distributors and their tasks, leases, losses, routes, and the measures of streams.

Of this layer's rooms it imports base, clusters, tenants and tree.
"""
