"""Logs of partitions: their ends, and readers of ranges.

Of this layer's rooms it imports base.
"""
