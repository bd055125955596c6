"""Filters of a request for messages: `key:`, `text:` and `header:` on bytes, `json:` on the decoded value.

All filters of a request must hold. Those on bytes are checked before a record is decoded, with the bytes as they
are in the log: a text inside Avro or Protobuf is found, since both write strings as UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.records.partition_edge import Header

MOST_FILTERS = 10
"""Filters of one request."""
LONGEST_FILTER = 2_000
"""Characters of a filter, its prefix included."""
_KEY, _TEXT, _HEADER, _JSON = _PREFIXES = ("key", "text", "header", "json")
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x00-\x7e]")

Needles = tuple[bytes, ...]
"""Spellings of one text; a part of a record that has any of them contains the text."""


@dataclass(frozen=True)
class HeaderFilter:
    """A header that a record must have; with `needles`, its value must contain one of them."""

    name: str
    needles: Needles | None


@dataclass(frozen=True)
class Filters:
    """Parsed filters of one request."""

    keys: tuple[Needles, ...] = ()
    texts: tuple[Needles, ...] = ()
    headers: tuple[HeaderFilter, ...] = ()
    expressions: tuple[str, ...] = ()
    """JSONPath expressions (RFC 9535) over the decoded value; `Decoders.check` says whether they are valid."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Filters:
        """Parse the filters of a request; one without a prefix is a `text:`. Raises ValueInvalid."""
        if len(texts) > MOST_FILTERS:
            raise _invalid(f"there are {len(texts)} filters, and a request has at most {MOST_FILTERS}")
        found: dict[str, list[str]] = {prefix: [] for prefix in _PREFIXES}
        for text in texts:
            if len(text) > LONGEST_FILTER:
                raise _invalid(f"it has {len(text):,} characters, and may have at most {LONGEST_FILTER:,}")
            prefix, separator, rest = text.partition(":")
            if not separator or prefix not in found:
                prefix, rest = _TEXT, text
            if not rest.strip():
                raise _invalid(f"{text!r} is empty: give the text, the header or the expression to look for")
            found[prefix].append(rest)
        return cls(
            keys=tuple(map(_needles, found[_KEY])),
            texts=tuple(map(_needles, found[_TEXT])),
            headers=tuple(map(_header, found[_HEADER])),
            expressions=tuple(each.strip() for each in found[_JSON]),
        )

    @property
    def expression(self) -> str | None:
        """Return one expression that holds where all `expressions` hold; None if there are none.

        Each must be valid alone: a parenthesis in one could otherwise close that of another.
        """
        if len(self.expressions) < 2:
            return self.expressions[0] if self.expressions else None
        return " && ".join(f"({each})" for each in self.expressions)

    def raw(self, key: bytes | None, value: bytes | None, headers: Callable[[], Sequence[Header]]) -> bool:
        """Return whether all filters on bytes hold. `headers` is called only if its answer matters."""
        for needles in self.keys:
            if not _has(key, needles):
                return False
        for needles in self.texts:
            if not _has(value, needles) and not _has(key, needles):
                return False
        if not self.headers:
            return True
        found = headers()
        return all(_has_header(found, each) for each in self.headers)


def _has(part: bytes | None, needles: Needles) -> bool:
    return part is not None and any(needle in part for needle in needles)


def _has_header(headers: Sequence[Header], wanted: HeaderFilter) -> bool:
    return any(
        name == wanted.name and (wanted.needles is None or _has(value, wanted.needles)) for name, value in headers
    )


def _header(text: str) -> HeaderFilter:
    name, separator, value = text.partition("=")
    if not name or (separator and not value):
        raise _invalid(f"{f'header:{text}'!r} has an empty part: write header:NAME or header:NAME=TEXT")
    return HeaderFilter(name, _needles(value) if separator else None)


def _needles(text: str) -> Needles:
    """Return a text in UTF-8, and as JSON writes it: all writers escape quotes, some all that is not ASCII."""
    try:
        plain = text.encode()
    except UnicodeEncodeError as error:
        raise _invalid("it contains an unpaired surrogate, which UTF-8 cannot encode") from error
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    lower, upper = (
        _NOT_PRINTABLE_ASCII.sub(escape, quoted) for escape in (_escaped, lambda found: _escaped(found, "X"))
    )
    return tuple(dict.fromkeys((plain, quoted.encode(), lower.encode(), upper.encode())))


def _escaped(found: re.Match[str], digits: str = "x") -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04{digits}}" for at in range(0, len(units), 2))


def _invalid(detail: str) -> ValueInvalid:
    return ValueInvalid(f"The filter is invalid: {detail}.", (FieldError("/filter", detail),))
