"""REST routes of schemas and their distributor.

Of this layer's rooms it imports frame.
"""
