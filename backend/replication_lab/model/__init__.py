"""Brokers, producers, the coordination store, the network, and the actions that change them.

Modules here import only each other.
"""
