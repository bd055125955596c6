"""Who outside is told of which events, and which addresses may be called.

Of this layer's rooms it imports base, distribution, names, switch and tenants.
"""
