"""Search for one record, and replay of dead letters.

Of this layer's rooms it imports base and copy.
"""
