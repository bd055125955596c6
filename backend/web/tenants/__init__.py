"""Pages and forms of tenants, streams, applications and grants.

Of this layer's rooms it imports forms, frame, switch and words.
"""
