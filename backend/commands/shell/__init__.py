"""What every command uses: contexts, requests, output, completion, exit codes.

It imports no other room of this layer.
"""
