"""Range checks of numbers in requests, reported all at once instead of one by one."""

from __future__ import annotations

from collections.abc import Sequence

from backend.domain.base.errors import FieldError, ValueInvalid


def range_errors(rows: Sequence[tuple[str, int, int, int]]) -> list[FieldError]:
    """Return one FieldError for each (field, value, lowest, highest) whose value is out of range."""
    return [
        FieldError(f"/{name}", f"must be from {low} to {high}")
        for name, value, low, high in rows
        if not low <= value <= high
    ]


def refuse(errors: Sequence[FieldError]) -> None:
    """Raise ValueInvalid if there is any error."""
    if errors:
        text = "; ".join(f"{error.pointer.lstrip('/')} {error.detail}" for error in errors)
        raise ValueInvalid(text, tuple(errors))
