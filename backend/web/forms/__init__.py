"""Forms: the one way from what is typed to what is done, with its effect beforehand, and refusals.

Of this layer's rooms it imports frame and words.
"""
