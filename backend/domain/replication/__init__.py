"""Replication of a cluster's partitions: judging one observation, and advice.

It imports no other room of this layer.
"""
