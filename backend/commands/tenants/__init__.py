"""Commands for applications.

Of this layer's rooms it imports shell.
"""
