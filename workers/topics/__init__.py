"""The reconcile loop: desired topics, adoption of existing ones, and recording of outcomes.

It imports no other room of this layer.
"""
