"""Names of subjects on clusters, and conflicts between schema registries.

Of this layer's rooms it imports base and names.
"""
