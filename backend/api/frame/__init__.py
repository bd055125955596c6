"""Shared parts of all routes: requests, problems, the gate, health, metrics.

It imports no other room of this layer.
"""
