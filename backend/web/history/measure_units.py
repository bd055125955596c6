"""Formats of measured values: with their unit in sentences, and short beside an axis.

Prefixes are decimal (1 MB is 1,000,000 bytes), as the steps of an axis are 1, 2 or 5 times a power of ten.
"""

from __future__ import annotations

from dataclasses import dataclass

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LONGEST_FULL = 1_000_000
_NOTHING = "–"


@dataclass(frozen=True)
class Unit:
    """A unit of measured values."""

    name: str
    """Name of the unit as an axis has it: "records per second"."""
    singular: str
    plural: str
    """Text after a value; empty if the unit is in the prefix."""
    kind: str = "count"
    """Way to format: "count", "bytes", or "ms" and "s" for durations."""
    is_whole: bool = False
    """True: values are whole numbers, so an axis has no fractions."""


_UNITS = {
    "records": Unit("records", "record", "records", is_whole=True),
    "records/s": Unit("records per second", "record/s", "records/s"),
    "B": Unit("bytes", "", "", "bytes", is_whole=True),
    "B/s": Unit("bytes per second", "/s", "/s", "bytes"),
    "ms": Unit("milliseconds", "", "", "ms"),
    "s": Unit("seconds", "", "", "s"),
    "partitions": Unit("partitions", "partition", "partitions", is_whole=True),
}


def unit_named(name: str) -> Unit:
    """Return the unit of this name; a name that is not known here follows a value as it is."""
    return _UNITS.get(name) or Unit(name, name, name)


def said(value: float | None, unit: Unit) -> str:
    """Format a value with its unit: `1,204 records`, `12.3 MB/s`, `350 ms`; an en dash for no value."""
    if value is None:
        return _NOTHING
    if unit.kind == "bytes":
        return f"{_scaled(value)}B{unit.plural}"
    if unit.kind == "ms":
        return _duration(value / 1000)
    if unit.kind == "s":
        return _duration(value)
    shown = float(round(value)) if unit.is_whole else value
    return f"{_number(shown)} {unit.singular if shown == 1 else unit.plural}".rstrip()


def on_axis(value: float, unit: Unit) -> str:
    """Format the value of a tick, which has few digits: `0`, `0.5`, `200k`, `5 MB`, `20 s`."""
    if unit.kind == "bytes":
        return f"{_scaled(value, digits=3)}B{unit.plural}" if value else "0"
    if unit.kind in ("ms", "s"):
        return _duration(value / 1000 if unit.kind == "ms" else value, digits=3) if value else "0"
    return _scaled(value, digits=3, space="")


def _number(value: float) -> str:
    if value >= _LONGEST_FULL:
        return _scaled(value, space="")
    if value >= 99.95 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.95 else f"{round(value, 2):g}"


def _duration(seconds: float, digits: int = 0) -> str:
    if seconds < 0.9995:
        return f"{_digits(seconds * 1000, digits)} ms"
    return f"{_digits(seconds, digits)} s"


def _scaled(value: float, digits: int = 0, space: str = " ") -> str:
    """Return the value with a decimal prefix; `digits`: as many at most, without trailing zeros."""
    for size, prefix in _PREFIXES:
        if value >= size * 0.9995:
            return f"{_digits(value / size, digits)}{space}{prefix}"
    return f"{_digits(value, digits)}{space}"


def _digits(value: float, digits: int) -> str:
    if value >= 999.5:
        return f"{value:,.0f}"
    if digits:
        return f"{value:.{digits}g}"
    if value == 0 or value >= 99.95 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.95 else f"{round(value, 2):g}"
