"""Events, what workers observe, searching by name, and what is common to all queries.

Of this layer's rooms it imports offsets.
"""
