"""Processes that look at clusters and bring them to what is declared."""

from __future__ import annotations

AN_ERROR_OF_OURS = "an error of Treeline's own; the worker's log has it"
"""Told as the reason where a worker does not know what went wrong."""
