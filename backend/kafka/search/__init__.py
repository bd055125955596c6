"""Finding one record, and sending refused ones again.

Of this layer's rooms it imports base and copy.
"""
