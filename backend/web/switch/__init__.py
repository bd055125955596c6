"""Switches: their plan, their course, and what is left.

Of this layer's rooms it imports forms, frame and words.
"""
