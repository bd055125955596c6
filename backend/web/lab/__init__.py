"""Pages of the replication lab.

Of this layer's rooms it imports forms, frame and words.
"""
