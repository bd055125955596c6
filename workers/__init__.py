"""Worker processes, which observe clusters and bring them to the declared state."""

from __future__ import annotations

AN_ERROR_OF_OURS = "an internal error of Treeline; see the worker's log"
"""Reason that is reported where a worker does not know what went wrong."""
