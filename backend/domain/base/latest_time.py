"""The latest time that requests may name."""

from __future__ import annotations

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: no later time can be written."""
