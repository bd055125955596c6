"""Which names are allowed, how clusters call what has a logical name, and the way back.

Of this layer's rooms it imports base.
"""
