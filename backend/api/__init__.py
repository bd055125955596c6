"""REST API: one router for each resource, in the room of its capability.

Routers read requests, call `backend/changes` and `backend/queries`, and shape answers; they decide nothing.
"""
