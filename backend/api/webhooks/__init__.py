"""REST routes of webhooks.

Of this layer's rooms it imports frame.
"""
