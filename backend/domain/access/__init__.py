"""Permissions of callers, users and their logins, and the access that applications need on clusters.

Of this layer's rooms it imports base and names.
"""
