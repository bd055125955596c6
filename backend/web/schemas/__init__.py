"""Pages and forms of schemas, compatibility levels and the primary.

Of this layer's rooms it imports distribution, forms, frame and words.
"""
