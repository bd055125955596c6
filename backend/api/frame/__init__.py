"""What every route uses: requests, problems, the gate, health, metrics.

It imports no other room of this layer.
"""
