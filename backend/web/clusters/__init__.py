"""Clusters and their adoption.

Of this layer's rooms it imports forms, frame, tree and words.
"""
