"""Page of a stream's messages.

Of this layer's rooms it imports frame, tenants and words.
"""
