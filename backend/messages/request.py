"""A request for messages: where to begin, how many, and which; parsed from the texts of a query or a form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.kafka.search.message_reading import After, AtOffset, Before, Earliest, Newest, Since, Start
from backend.messages.facts import MessageFacts
from backend.messages.filters import Filters

T = TypeVar("T")

USUAL_LIMIT = 50
MOST_LIMIT = 500
MOST_PARTITIONS = 256
"""Partitions that one request reads; each has a queue and a place in the answer."""
LONGEST_START = 40 * MOST_PARTITIONS
"""Characters of the longest `from` that an answer gives, and more."""
HIGHEST = 2**63 - 1
_HIGHEST_PARTITION = 2**31 - 1
_PLACES = re.compile(r"[0-9]{1,10}=[0-9]{1,19}(,[0-9]{1,10}=[0-9]{1,19})*")
_STARTS = (
    "earliest, latest, an offset (with a partition), time:<milliseconds since 1970, or ISO 8601>, or what "
    "next.from of an answer says"
)


@dataclass(frozen=True, kw_only=True)
class MessageRequest:
    """The messages of a stream to read. `start_text` and `filter_texts` are as they were given, for the audit."""

    partition: int | None
    """One partition; None for all, or for those that the start names."""
    start: Start
    start_text: str
    limit: int
    filters: Filters
    filter_texts: tuple[str, ...]

    @property
    def is_backward(self) -> bool:
        """Tell whether the newest messages come first."""
        return isinstance(self.start, Newest | Before)

    def partitions(self, facts: MessageFacts) -> tuple[int, ...]:
        """Return the partitions to read. Raises ValueInvalid: one does not exist, or there are too many."""
        if isinstance(self.start, After | Before):
            chosen, place = tuple(sorted(self.start.offsets)), "/from"
        elif self.partition is not None:
            chosen, place = (self.partition,), "/partition"
        else:
            chosen, place = tuple(range(facts.partitions)), "/partition"
        if max(chosen) >= facts.partitions:
            raise _invalid(place, f"stream {facts.stream} has partitions 0 to {facts.partitions - 1}")
        if len(chosen) > MOST_PARTITIONS:
            raise _invalid(
                place,
                f"stream {facts.stream} has {facts.partitions} partitions, and one request reads at most "
                f"{MOST_PARTITIONS}: choose one",
            )
        return chosen


def parse(*, start: str, partition: str, limit: str, filters: Sequence[str]) -> MessageRequest:
    """Parse a request; empty texts stand for the defaults.

    Raises ValueInvalid with an error for each wrong parameter: `/from`, `/partition`, `/limit`, `/filter`.
    """
    errors: list[FieldError] = []

    def taken(read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except ValueInvalid as error:
            errors.extend(error.errors)
            return default

    one = taken(lambda: _number(partition, "/partition", 0, _HIGHEST_PARTITION), None)
    most = taken(lambda: _number(limit, "/limit", 1, MOST_LIMIT), None)
    usual: Start = Newest()
    begin = taken(lambda: _start(start, has_partition=bool(partition)), usual)
    chosen = taken(lambda: Filters.parse(filters), Filters())
    if isinstance(begin, After | Before) and one is not None and begin.offsets.keys() != {one}:
        errors.append(FieldError("/from", f"it names other partitions than {one}: leave one of them out"))
    if errors:
        raise ValueInvalid("; ".join(f"{each.pointer[1:]}: {each.detail}" for each in errors), tuple(errors))
    return MessageRequest(
        partition=one,
        start=begin,
        start_text=start or "latest",
        limit=most or USUAL_LIMIT,
        filters=chosen,
        filter_texts=tuple(filters),
    )


def _number(text: str, pointer: str, lowest: int, highest: int) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and lowest <= int(text) <= highest):
        raise _invalid(pointer, f"it must be a number from {lowest} to {highest}")
    return int(text)


def _start(text: str, *, has_partition: bool) -> Start:
    kind, _, rest = text[:LONGEST_START].partition(":")
    match kind:
        case "" | "latest" if kind == text:
            return Newest()
        case "earliest" if kind == text:
            return Earliest()
        case "time":
            return Since(_time_ms(rest))
        case "after":
            return After(_places(text))
        case "before":
            return Before(_places(text))
    if not (text.isascii() and text.isdigit()):
        raise _invalid("/from", f"it must be {_STARTS}")
    if not has_partition:
        raise _invalid("/from", "an offset counts within one partition: give the partition, too")
    offset = _number(text, "/from", 0, HIGHEST)
    assert offset is not None
    return AtOffset(offset)


def _time_ms(text: str) -> int:
    if text.isascii() and text.isdigit():
        return _number(text, "/from", 0, HIGHEST) or 0
    try:
        found = datetime.fromisoformat(text)
        return max(0, round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise _invalid("/from", "a time is in milliseconds since 1970, or in ISO 8601") from None


def _places(text: str) -> Mapping[int, int]:
    rest = text.partition(":")[2]
    if len(text) > LONGEST_START or not _PLACES.fullmatch(rest):
        raise _invalid("/from", "places are partition=offset, separated by commas, as next.from of an answer says")
    pairs = [each.partition("=") for each in rest.split(",")]
    places = {int(partition): int(offset) for partition, _, offset in pairs}
    if len(places) < len(pairs) or max(places) > _HIGHEST_PARTITION or max(places.values()) > HIGHEST:
        raise _invalid("/from", "it names a partition twice, or a number that is too high")
    return places


def _invalid(pointer: str, detail: str) -> ValueInvalid:
    return ValueInvalid(detail, (FieldError(pointer, detail),))
