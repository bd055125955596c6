"""REST resources of losses, dead letters and traces.

Of this layer's rooms it imports frame.
"""
