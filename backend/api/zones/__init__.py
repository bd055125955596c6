"""The zone router.

Of this layer's rooms it imports frame.
"""
