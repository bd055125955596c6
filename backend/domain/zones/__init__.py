"""Zones: client zones, broker-to-proxy assignment, paid traffic, and the epochs of the router channel.

Of this layer's rooms it imports base.
"""
