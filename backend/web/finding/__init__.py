"""Search by name: everything that a viewer may see, what it may do, and suggestions for fields that take names.

Of this layer's rooms it imports frame, schemas and words.
"""
