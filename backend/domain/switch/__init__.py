"""Moving clients to another cluster: its phases, what it would do, what it did, and what clients are told.

Of this layer's rooms it imports base, records and tree.
"""
