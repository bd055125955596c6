"""REST route of the messages of streams.

Of this layer's rooms it imports frame.
"""
