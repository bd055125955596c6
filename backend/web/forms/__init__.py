"""Forms: the one path from input to change, with a preview of its effect, and with refusals.

Of this layer's rooms it imports frame and words.
"""
