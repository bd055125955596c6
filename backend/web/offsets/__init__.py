"""Pages of committed offsets and their reset.

Of this layer's rooms it imports forms, frame and words.
"""
