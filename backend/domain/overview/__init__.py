"""The overview: the verdict on the estate's health, and the steps of a first run.

Of this layer's rooms it imports access, base and offsets.
"""
