"""Webhooks: receivers of events outside, and the addresses that may be called.

Of this layer's rooms it imports base, distribution, names, switch and tenants.
"""
