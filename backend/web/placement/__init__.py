"""Pages of placements, their plans and runs.

Of this layer's rooms it imports forms, frame and words.
"""
