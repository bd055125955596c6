"""Formats of what nodes of the zone router exchange and store: messages, bulks, blocks and the log of links."""
