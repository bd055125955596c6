"""Nodes of the zone router: proxies, which clients use, and mains, which stand beside brokers.

A node is one asyncio process. `proxy` and `main` share `formats` and the modules beside them.
"""
