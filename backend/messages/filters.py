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
from backend.kafka.base.message_headers import Message, headers_of

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
    def are_on_bytes(self) -> bool:
        """Return whether one of them can be checked before a record is decoded."""
        return bool(self.keys or self.texts or self.headers)

    @property
    def expression(self) -> str | None:
        """Return one expression that holds where all `expressions` hold; None if there are none.

        Each must be valid alone: a parenthesis in one could otherwise close that of another.
        """
        if len(self.expressions) < 2:
            return self.expressions[0] if self.expressions else None
        return " && ".join(f"({each})" for each in self.expressions)

    def matching(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages for which all filters on bytes hold; a filter sees those that passed the others."""
        found = list(messages)
        for needles in self.keys:
            found = _with_key(found, needles)
        for needles in self.texts:
            found = _with_text(found, needles)
        for wanted in self.headers:
            name, finds = wanted.name, None if wanted.needles is None else _finder(wanted.needles)
            found = [each for each in found if _has_header(headers_of(each), name, finds)]
        return found


def _with_key(messages: list[Message], needles: Needles) -> list[Message]:
    if len(needles) > 1:
        has = _finder(needles)
        return [each for each in messages if has(each.key() or b"")]
    # Without a call for each record, a scan is a fifth faster.
    (needle,) = needles
    return [each for each in messages if needle in (each.key() or b"")]


def _with_text(messages: list[Message], needles: Needles) -> list[Message]:
    if len(needles) > 1:
        has = _finder(needles)
        return [each for each in messages if has(each.value() or b"") or has(each.key() or b"")]
    (needle,) = needles
    return [each for each in messages if needle in (each.value() or b"") or needle in (each.key() or b"")]


def _finder(needles: Needles) -> Callable[[bytes], bool]:
    """Return a function that tells whether bytes contain a needle; no needle is empty."""
    if len(needles) == 1:
        needle = needles[0]
        return lambda part: needle in part
    return lambda part: any(needle in part for needle in needles)


def _has_header(headers: Sequence[Header], wanted: str, has: Callable[[bytes], bool] | None) -> bool:
    return any(name == wanted and (has is None or (value is not None and has(value))) for name, value in headers)


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
