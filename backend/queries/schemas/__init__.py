"""Subjects, their owners, and the schema distributor's states.

Of this layer's rooms it imports base, clusters and tree.
"""
