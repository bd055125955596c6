"""Pages of distributors, losses and traces.

Of this layer's rooms it imports forms, frame, tree and words.
"""
