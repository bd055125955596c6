"""Topics: differences from their declaration, and records at risk.

Of this layer's rooms it imports base, clusters, distribution, replication and tenants.
"""
