"""Headers of consumed records, whose names may be any bytes.

Kafka wants names in UTF-8 and checks nothing: any producer can write others. confluent-kafka (2.16) then leaves
the name of such a pair a null pointer, and returns the list beside an exception. Touching that name ends the
process.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from operator import methodcaller

from confluent_kafka import Message

from backend.domain.records.partition_edge import Header

__all__ = ["UNREADABLE_NAME", "Message", "headers_of", "unreadable_names"]

UNREADABLE_NAME = "".join(("\N{REPLACEMENT CHARACTER}", "?"))
"""Stands for a name that is not UTF-8, which is lost. Told by identity: another producer may use the same text."""
# Once a call is hot, the interpreter skips its check for a result beside an exception; `methodcaller` never does.
_HEADERS = methodcaller("headers")


def headers_of(message: Message) -> list[Header]:
    """Return a record's headers; a name that is not UTF-8 is replaced by `UNREADABLE_NAME`, its value is kept."""
    try:
        return _HEADERS(message) or []
    except SystemError:
        # It raises once, then returns the list with its null pointers.
        found = [_header(pair) for pair in _HEADERS(message)]
        message.set_headers(list(found))
        return found


def unreadable_names(headers: Iterable[Header]) -> int:
    """Return how many of the names were not UTF-8."""
    return sum(name is UNREADABLE_NAME for name, _ in headers)


def _header(pair: tuple[str, bytes | None]) -> Header:
    """Return a pair whose name may be a null pointer, which is not among the pair's referents."""
    return pair if len(gc.get_referents(pair)) == 2 else (UNREADABLE_NAME, pair[1])
