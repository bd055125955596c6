"""One function for each change: it collects the facts that a command needs, and returns the command.

The API, the console and workers use these functions, so that all of them change things alike.
"""
