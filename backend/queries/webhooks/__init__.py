"""Webhooks, their signing secrets and deliveries.

Of this layer's rooms it imports access.
"""
