"""Reconciles the access of applications on clusters.

Of this layer's rooms it imports topics.
"""
