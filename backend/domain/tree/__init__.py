"""The tree: its shape and edits, the routes of records through it, distributors' settings, the primary.

Of this layer's rooms it imports base and records.
"""
