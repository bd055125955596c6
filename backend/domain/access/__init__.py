"""Who may do what here, who logs in, and what applications need on clusters.

Of this layer's rooms it imports base and names.
"""
