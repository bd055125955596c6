"""The zone router's nodes, traffic and route epochs.

Of this layer's rooms it imports base.
"""
