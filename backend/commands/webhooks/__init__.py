"""`treeline webhook`: commands for webhooks.

Of this layer's rooms it imports shell.
"""
