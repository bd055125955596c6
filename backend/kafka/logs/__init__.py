"""Logs of partitions: their ends, and reading ranges of them.

Of this layer's rooms it imports base.
"""
