"""`treeline webhooks`.

Of this layer's rooms it imports shell.
"""
