"""Projections: tables that follow from the events, written in the transaction that appends them."""
