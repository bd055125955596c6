"""Shared parts of all commands: contexts, requests, output, completion, exit codes.

It imports no other room of this layer.
"""
