"""Filters and decoders of one request, applied to consumed messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from backend.domain.base.errors import DecodingUnavailable, FieldError, MessagesBusy, ValueInvalid
from backend.kafka.base.message_headers import Message
from backend.messages.decoded_fields import Pair, Parts
from backend.messages.decoder_schemas import SchemaText
from backend.messages.decoders import (
    CheckedExpression,
    Decoders,
    DecodersUnavailable,
    DecodingEnded,
    ExpressionInvalid,
)
from backend.messages.filters import Filters

Schemas = Callable[[int], SchemaText | None]
"""Returns the schema with an id, None for one that the stream's tenant does not see."""
# After so much the size of what was decoded is checked: a few bytes can become megabytes of JSON. A slice begins
# with one message, doubles, and has one again after it had more characters than this.
_SLICE_SECONDS = 2.0
_SLICE_BYTES = 1024 * 1024
_SLICE_CHARACTERS = 1024 * 1024
_SLICE_SHOWN = 8
_SLICE_EVALUATED = 2_000  # many, as most do not match
_CHECK_SECONDS = 10.0


class MessageDecoding:
    """Filtering and decoding for one request; used by one thread."""

    def __init__(self, decoders: Decoders, filters: Filters, schemas: Schemas) -> None:
        self._decoders, self._filters, self._schemas = decoders, filters, schemas
        self._expression = filters.expression
        self._at_once = 1
        """Messages of the next slice that is evaluated."""

    @property
    def has_expression(self) -> bool:
        """Tell whether messages have to be decoded to know whether they match."""
        return self._expression is not None

    def matching(self, batch: Sequence[Message]) -> list[Message]:
        """Return the messages that pass the filters on bytes."""
        return self._filters.matching(batch)

    def evaluated(self, messages: Sequence[Message], seconds: float, most_characters: int) -> list[Pair | None]:
        """Return the fields of messages, None where the expression does not hold.

        Return less if the time is over, or once the fields have so many characters.
        """
        found, self._at_once = self._sliced(
            messages, self._expression, seconds, most_characters, self._at_once, _SLICE_EVALUATED
        )
        return found

    def fields(self, messages: Sequence[Message], seconds: float, most_characters: int) -> list[Pair]:
        """Return the fields of messages; less as `evaluated` does."""
        return cast("list[Pair]", self._sliced(messages, None, seconds, most_characters, 1, _SLICE_SHOWN)[0])

    def _sliced(
        self,
        messages: Sequence[Message],
        expression: str | None,
        seconds: float,
        most_characters: int,
        most: int,
        largest: int,
    ) -> tuple[list[Pair | None], int]:
        """Return what was decoded of messages, and the size of the next slice; beyond the bounds is one slice.

        The first slice has at most `most` messages, others at most `largest`.
        """
        deadline, found, characters = time.monotonic() + seconds, list[Pair | None](), 0
        while len(found) < len(messages) and characters < most_characters:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            part = _first(messages[len(found) : len(found) + most])
            new = self._decoded(part, expression, min(left, _SLICE_SECONDS))
            size = sum(characters_of(pair) for pair in new if pair is not None)
            found += new
            characters += size
            most = min(2 * most, largest) if size <= _SLICE_CHARACTERS else 1
        return found, most

    def _decoded(self, messages: Sequence[Message], expression: str | None, seconds: float) -> list[Pair | None]:
        parts = [Parts(each.key(), each.value()) for each in messages]
        with decoding_failures():
            try:
                return self._decoders.decode(parts, self._schemas, expression, seconds)
            except DecodingEnded as ended:
                return ended.results


def check_expressions(decoders: Decoders, filters: Filters) -> CheckedExpression:
    """Return what is known of the expression for which all expressions hold.

    Raises ValueInvalid for an invalid expression; MessagesBusy, DecodingUnavailable.
    """
    deadline = time.monotonic() + _CHECK_SECONDS
    checked = CheckedExpression()
    # Each alone, and what they are together: that may be too long.
    for expression in dict.fromkeys((*filters.expressions, filters.expression)):
        if expression is None:
            continue
        try:
            if time.monotonic() >= deadline:
                raise DecodingEnded([])
            with decoding_failures():
                checked = decoders.check(expression)
        except DecodingEnded as ended:
            raise MessagesBusy("All decoders are in use. Try again in a few seconds.") from ended
    # The last one is what they are together.
    return checked


@contextmanager
def decoding_failures() -> Iterator[None]:
    """Raise the domain's errors in place of those of decoders."""
    try:
        yield
    except ExpressionInvalid as error:
        said = f"the expression is invalid at character {error.position + 1}: {error.reason}"
        raise ValueInvalid(f"filter: {said}", (FieldError("/filter", said),)) from error
    except DecodersUnavailable as error:
        raise DecodingUnavailable(str(error)) from error


def _first(messages: Sequence[Message]) -> Sequence[Message]:
    """Return as many messages as one slice may have bytes of, but one at least."""
    size = 0
    for number, each in enumerate(messages):
        size += len(each.key() or b"") + len(each.value() or b"")
        if number and size > _SLICE_BYTES:
            return messages[:number]
    return messages


def characters_of(pair: Pair) -> int:
    """Return the size of a key and value as they are shown."""
    return sum(len(each.value) if isinstance(each.value, str) else len(json.dumps(each.value)) for each in pair)
