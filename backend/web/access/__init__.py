"""Pages of accounts, users, members, tokens, sessions and the audit.

Of this layer's rooms it imports forms, frame, tenants and words.
"""
