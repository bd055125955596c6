"""Verbs of the command line: each sends REST requests and prints the answers.

Only the room `estate` starts programs; no verb reads the database.
"""
