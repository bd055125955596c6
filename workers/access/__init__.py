"""Access of applications, as clusters should have it.

Of this layer's rooms it imports topics.
"""
