"""Command `treeline replication`.

Of this layer's rooms it imports shell.
"""
