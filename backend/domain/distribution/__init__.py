"""Distribution: tasks and their assignment, route versions of leaves, resuming and rescanning, losses, traces.

Of this layer's rooms it imports base, records and tree.
"""
