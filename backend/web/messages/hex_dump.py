"""Bytes as people read them: a hex dump, and a short form for one line."""

from __future__ import annotations

_ROW_BYTES = 16
_ROW_CHARACTERS = 3 * _ROW_BYTES - 1
_PRINTABLE = range(0x20, 0x7F)


def hex_dump(data: bytes) -> str:
    """Return rows of an offset, sixteen bytes, and the same bytes in ASCII; a dot stands for what is none."""
    rows = ((first, data[first : first + _ROW_BYTES]) for first in range(0, len(data), _ROW_BYTES))
    return "\n".join(f"{first:04x}  {row.hex(' '):<{_ROW_CHARACTERS}}  {_ascii(row)}" for first, row in rows)


def hex_line(data: bytes, most: int) -> str:
    """Return at most so many bytes in one line, with an ellipsis if there are more."""
    return data[:most].hex(" ") + (" …" if len(data) > most else "")


def _ascii(row: bytes) -> str:
    return "".join(chr(each) if each in _PRINTABLE else "." for each in row)
