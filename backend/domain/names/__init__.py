"""Names: allowed names, technical names on clusters, and the mapping back to logical names.

Of this layer's rooms it imports base.
"""
