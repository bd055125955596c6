"""Console page of the zone router.

Of this layer's rooms it imports forms, frame and words.
"""
