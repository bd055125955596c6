"""Consumer groups: members, offsets, positions of distributors, and the topics that hold them.

Of this layer's rooms it imports base and logs.
"""
