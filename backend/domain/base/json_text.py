"""JSON as a text that is kept: parsing it would round its numbers, and drop repeated names."""

from __future__ import annotations

import json


def checked(text: str) -> str:
    """Return a JSON text without the white space around it, and otherwise unchanged.

    Raises ValueError with the reason if it is not JSON, also for NaN and Infinity, which Python's parser accepts.
    """
    found = text.strip(" \t\r\n")
    try:
        # Numbers are not converted: they may have any size.
        json.loads(found, parse_constant=_refuse, parse_int=str, parse_float=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
