"""Tells webhooks' receivers of events: `queue` finds what, a thread for each webhook that has something due
sends it."""
