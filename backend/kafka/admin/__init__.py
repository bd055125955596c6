"""What a cluster is asked to change or tell: topics, access, quotas, replicas.

Of this layer's rooms it imports base and logs.
"""
