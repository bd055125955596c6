"""REST routes of the replication lab's drills.

Of this layer's rooms it imports frame.
"""
