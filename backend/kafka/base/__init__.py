"""Clients: their configuration and secrets, errors, who a cluster is, requests of our own.

It imports no other room of this layer.
"""
