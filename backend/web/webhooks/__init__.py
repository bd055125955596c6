"""Pages and forms of webhooks.

Of this layer's rooms it imports forms, frame and words.
"""
