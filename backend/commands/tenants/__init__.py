"""`treeline grant`, `refuse`, `withdraw` and `credentials`: commands for applications.

Of this layer's rooms it imports shell.
"""
