"""What a topic should be, what it is, and the steps from one to the other.

Of this layer's rooms it imports base.
"""
