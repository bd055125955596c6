"""Sends events to webhooks' receivers.

`queue` finds the events; a thread for each webhook with due deliveries sends them.
"""
