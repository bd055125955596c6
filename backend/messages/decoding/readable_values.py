"""Values of Avro and Protobuf that JSON has no type for, in a readable form: decimals, times, bytes, floats."""

from __future__ import annotations

import base64
import contextlib
import math
import struct
from datetime import UTC, date, datetime, timedelta

MOST_DIGITS = 1_000
"""Most digits of a decimal, before and after its point; a schema can ask for a billion."""
_MOST_DIGIT_BYTES = MOST_DIGITS * 10 // 24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_A_DAY = 86_400
_FLOAT = struct.Struct("<f")


def in_base64(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def floating(value: float) -> float | str:
    """Return a number, or the name of one that JSON does not have."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def single(value: float) -> float | str:
    """Return a number of 4 bytes with as few digits as tell it from its neighbours: 0.1, not 0.10000000149."""
    if not math.isfinite(value):
        return floating(value)
    packed = _FLOAT.pack(value)
    for digits in range(6, 9):
        shorter = float(f"{value:.{digits}g}")
        with contextlib.suppress(OverflowError):  # rounded up, the largest numbers leave the range
            if _FLOAT.pack(shorter) == packed:
                return shorter
    return float(f"{value:.9g}")


def decimal(unscaled: bytes, scale: int) -> str | None:
    """Return a decimal as text; None if it has too many digits to be read."""
    if len(unscaled) > _MOST_DIGIT_BYTES or not 0 <= scale <= MOST_DIGITS:
        return None
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def day(days: int) -> str | None:
    """Return a date in ISO 8601, from days since 1970; None beyond the years 1 to 9999."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def time_of_day(units: int, digits: int) -> str | None:
    """Return a time in ISO 8601, from units of 10**-digits seconds since midnight; None if no day has it."""
    seconds, fraction = divmod(units, 10**digits)
    if not 0 <= seconds < _SECONDS_A_DAY:
        return None
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


def instant(units: int, digits: int, *, zone: str = "Z") -> str | None:
    """Return a time in ISO 8601, from units of 10**-digits seconds since 1970; None beyond the years 1 to 9999."""
    seconds, fraction = divmod(units, 10**digits)
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%m-%dT%H:%M:%S")
        year = (_EPOCH + timedelta(seconds=seconds)).year
    except OverflowError:
        return None
    return f"{year:04}-{text}" + (f".{fraction:0{digits}}" if digits else "") + zone
