"""The topic that holds a registry's schemas.

Of this layer's rooms it imports admin, base and logs.
"""
