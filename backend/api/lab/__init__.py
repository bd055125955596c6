"""Drills of the replication lab.

Of this layer's rooms it imports frame.
"""
