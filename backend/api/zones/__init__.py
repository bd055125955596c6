"""REST routes of the zone router.

Of this layer's rooms it imports frame.
"""
