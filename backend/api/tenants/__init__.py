"""REST routes of tenants, streams and applications.

Of this layer's rooms it imports frame.
"""
