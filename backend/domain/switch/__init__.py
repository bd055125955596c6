"""Rules for moving clients to another cluster: phases, plan, checks, report, and what discovery answers.

Of this layer's rooms it imports base, records and tree.
"""
