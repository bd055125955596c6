"""What subjects are called on clusters, and what a distributor of schemas does about conflicts.

Of this layer's rooms it imports base and names.
"""
