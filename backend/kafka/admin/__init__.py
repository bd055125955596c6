"""Administration of clusters: topics, access, quotas, replicas.

Of this layer's rooms it imports base and logs.
"""
