"""Topics: desired state, observed state, and the steps from one to the other.

Of this layer's rooms it imports base.
"""
