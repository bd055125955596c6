"""Facts for the overview, gathered from the tables of the other rooms.

Of this layer's rooms it imports base, clusters, distribution, offsets, switch, tree, webhooks and zones.
"""
