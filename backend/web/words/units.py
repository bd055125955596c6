"""Durations and sizes as forms accept and show them: `7 d`, `90 s`, `for ever`; `1 MiB`, `1048588`."""

from __future__ import annotations

import re

from backend.domain.base.errors import FieldError, ValueInvalid

FOR_EVER = "for ever"
_TEXT = re.compile(r"([0-9]{1,19})\s*([a-zA-Z]*)")
_DURATIONS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def duration_shown(milliseconds: int) -> str:
    """Format a duration in the largest unit that expresses it exactly."""
    return FOR_EVER if milliseconds < 0 else _shown(milliseconds, _DURATIONS)


def size_shown(size_bytes: int) -> str:
    """Format a size in the largest unit that expresses it exactly."""
    return _shown(size_bytes, _SIZES)


def duration_ms(text: str, pointer: str) -> int:
    """Return milliseconds, -1 for ever; raises ValueInvalid. A number alone is milliseconds."""
    if text.strip().lower() in (FOR_EVER, "forever", "-1"):
        return -1
    return _read(text, _DURATIONS, pointer, f"like 7 d, 12 h, 90 s, 500 ms, or {FOR_EVER}")


def size_bytes(text: str, pointer: str) -> int:
    """Return bytes; raises ValueInvalid. A number alone is bytes."""
    return _read(text, _SIZES, pointer, "like 1 MiB, 512 KiB, or a number of bytes")


def whole_number(text: str, pointer: str) -> int:
    """Return a whole number; raises ValueInvalid."""
    plain = text.strip()
    if not re.fullmatch(r"-?[0-9]{1,18}", plain):
        raise _invalid(pointer, "must be a whole number")
    return int(plain)


def _shown(value: int, units: dict[str, int]) -> str:
    unit = max((unit for unit, size in units.items() if value % size == 0), key=units.__getitem__)
    return f"{value // units[unit]} {unit}" if value else f"0 {next(iter(units))}"


def _read(text: str, units: dict[str, int], pointer: str, wanted: str) -> int:
    found = _TEXT.fullmatch(text.strip())
    known = {unit.lower(): size for unit, size in units.items()}
    if found is None or (found[2] and found[2].lower() not in known):
        raise _invalid(pointer, f"must be {wanted}")
    return int(found[1]) * (known[found[2].lower()] if found[2] else 1)


def _invalid(pointer: str, problem: str) -> ValueInvalid:
    return ValueInvalid(f"{pointer.lstrip('/')} {problem}", (FieldError(pointer, problem),))
