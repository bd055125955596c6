"""REST route of the overview.

Of this layer's rooms it imports frame.
"""
