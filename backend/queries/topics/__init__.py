"""Topics that differ from what is declared, and what is at risk.

Of this layer's rooms it imports base, clusters, distribution, replication and tenants.
"""
