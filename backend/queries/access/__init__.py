"""Users, logins, callers, the audit, and stored secrets.

It imports no other room of this layer.
"""
