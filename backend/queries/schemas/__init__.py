"""Subjects, their owners, and the state of the schema distributor.

Of this layer's rooms it imports base, clusters and tree.
"""
