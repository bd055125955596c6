"""Requests to clusters on behalf of the API and the console.

They trace and replay records, read figures of streams, reset offsets, elect leaders, and answer what the loss of a
broker would mean.
"""
