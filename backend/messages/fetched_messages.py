"""Messages that a search leaves out as they are fetched, before partitions are merged and anything is decoded.

filters on bytes --> texts that an expression requires --> a bounded expression on short JSON

Each step leaves out only what cannot match. What none of them is sure about is decoded by the child process, which
decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from backend.kafka.base.message_headers import Message
from backend.messages.decoders import CheckedExpression
from backend.messages.decoding import expressions, plain_json
from backend.messages.filters import Filters

MOST_CHARACTERS = 1_000
"""Characters of the longest expression that is evaluated here: compiling it takes milliseconds."""
_LOOKED_AT = 32
"""Messages between two looks at the clock, each of which takes a tenth of what most messages take."""
_SECONDS = 0.5
"""Time for evaluating an expression on what was fetched at once; it usually takes a tenth."""

Holds = Callable[[Any], bool]
Step = Callable[[Sequence[Message]], list[Message]]
"""Returns those of some messages that may match, in their order."""


def passing(filters: Filters, checked: CheckedExpression) -> Step | None:
    """Return a function that returns the messages that may match; None if all may.

    All filters on bytes hold for what it returns. `checked`: what is known of the filters' expression.
    """
    steps: list[Step] = []
    if filters.are_on_bytes:
        steps.append(filters.matching)
    if needles := [needle for text in checked.required if (needle := _in_utf_8(text))]:
        steps.append(partial(_with_needles, needles))
    if (holds := _bounded(filters.expression, checked)) is not None:
        steps.append(partial(_not_rejected, holds))
    return partial(_all_steps, steps) if steps else None


def _all_steps(steps: Sequence[Step], messages: Sequence[Message]) -> list[Message]:
    found = list(messages)
    for step in steps:
        found = step(found)
    return found


def _with_needles(needles: Sequence[bytes], messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages if _may_have(each.value() or b"", needles)]


def _may_have(value: bytes, needles: Sequence[bytes]) -> bool:
    """Tell whether a value may have all these texts once it is decoded.

    JSON may spell a text with escapes. What a schema decodes, which begins with a zero, may not spell it at all:
    the symbols of an enum are numbers there.
    """
    return all(needle in value for needle in needles) or b"\\" in value or value[:1] == b"\0"


def _in_utf_8(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only write as an escape sequence
        return None


def _bounded(expression: str | None, checked: CheckedExpression) -> Holds | None:
    """Return the function of an expression that may be evaluated in this process."""
    if expression is None or not checked.is_bounded or len(expression) > MOST_CHARACTERS:
        return None
    try:
        return expressions.compiled(expression).holds
    except expressions.ExpressionWrong:  # the child, where it is valid, has more levels of calls left
        return None


def _not_rejected(holds: Holds, messages: Sequence[Message]) -> list[Message]:
    """Return the messages for whose value an expression may hold; when the time is over, all that are left."""
    clock, rejects = time.monotonic, plain_json.rejects
    deadline = clock() + _SECONDS
    found: list[Message] = []
    for number, each in enumerate(messages):
        if number % _LOOKED_AT == 0 and clock() >= deadline:
            return [*found, *messages[number:]]
        if not rejects(holds, each.value() or b""):
            found.append(each)
    return found
