"""Switches, their plans, and discovery.

Of this layer's rooms it imports frame.
"""
