"""Pages of the timeline, of undo, and of upkeep.

Of this layer's rooms it imports forms, frame and words.
"""
