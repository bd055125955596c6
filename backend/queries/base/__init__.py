"""Base of all queries: events, observations of workers, search by name, common facts.

Of this layer's rooms it imports offsets.
"""
