"""Times in requests: milliseconds since 1970, or ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime

from backend.domain.base.errors import FieldError, ValueInvalid

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: no later time can be written."""


def time_ms(text: str, pointer: str) -> int:
    """Return the time that a parameter names, in milliseconds. Raises ValueInvalid at the parameter's pointer."""
    detail = "it must be a time, in milliseconds since 1970 or as ISO 8601, such as 2026-01-31T12:00:00Z"
    if text.isascii() and text.isdigit():
        found_ms = int(text)
    else:
        try:
            found = datetime.fromisoformat(text)
            # Without a zone, times are UTC, as they are everywhere else.
            found_ms = round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise ValueInvalid(f"{pointer[1:]}: {detail}", (FieldError(pointer, detail),)) from error
    if not 0 <= found_ms <= LATEST_MS:
        raise ValueInvalid(f"{pointer[1:]}: {detail}", (FieldError(pointer, detail),))
    return found_ms


def time_since(text: str) -> datetime | None:
    """Return the time of a parameter `since`; None without one. Raises ValueInvalid."""
    return datetime.fromtimestamp(time_ms(text, "/since") / 1000, UTC) if text else None
