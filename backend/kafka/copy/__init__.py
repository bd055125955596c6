"""Copying: one session of a task, from the source's records to the target's transactions.

Of this layer's rooms it imports admin, base, groups and logs.
"""
