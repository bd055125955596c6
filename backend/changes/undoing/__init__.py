"""Undo of one event's change: by a command that is decided, previewed and logged like any other."""
