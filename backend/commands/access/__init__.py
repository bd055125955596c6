"""`treeline audit`, and commands for users.

Of this layer's rooms it imports shell.
"""
