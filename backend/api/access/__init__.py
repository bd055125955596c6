"""REST routes of logins, users, members, grants and the audit.

Of this layer's rooms it imports frame.
"""
