"""REST routes of switches, switch plans and discovery.

Of this layer's rooms it imports frame.
"""
