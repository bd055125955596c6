"""Pages and forms of clusters and of adoptions.

Of this layer's rooms it imports forms, frame, tree and words.
"""
