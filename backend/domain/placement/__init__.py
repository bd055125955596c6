"""Replica placements, the runs that execute them, and policies for brokers that join or leave.

Of this layer's rooms it imports base.
"""
