"""Ids of a live tail's events: how far it was read, so that a browser that reconnects continues from there.

<cluster>/<incarnation of the topic there>/<partition>=<offset>,...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.base.errors import ValueInvalid
from backend.kafka.search.message_reading import After
from backend.messages.facts import MessageFacts
from backend.messages.request import LONGEST_START, parse

LONGEST = 400 + LONGEST_START
"""Characters of the longest id, and more."""
OTHER_TOPIC = "The topic was created anew meanwhile: messages in between are not shown."
UNKNOWN = "Where you stopped is not known: messages in between are not shown."
OUT_OF_RANGE = "The log ends before where you stopped, since it was truncated: messages in between are not shown."


@dataclass(frozen=True)
class TailStart:
    """Where a tail begins: after what was seen, or at the ends (None); `note` tells why it does not continue."""

    offsets: Mapping[int, int] | None = None
    note: str = ""


def written(facts: MessageFacts, positions: Mapping[int, int]) -> str:
    """Return the id of an event after which a tail is at these positions."""
    places = ",".join(f"{partition}={offset}" for partition, offset in sorted(positions.items()))
    return f"{facts.cluster}/{facts.incarnation}/{places}"


def read(facts: MessageFacts, event_id: str) -> TailStart:
    """Return where the tail of an event id continues; an empty one stands for a tail that begins."""
    if not event_id:
        return TailStart()
    cluster, _, rest = event_id[:LONGEST].partition("/")
    incarnation, _, places = rest.partition("/")
    try:
        start = parse(start=f"after:{places}", partition="", limit="", filters=()).start
    except ValueInvalid:
        return TailStart(note=UNKNOWN)
    if not isinstance(start, After) or cluster != facts.cluster:
        return TailStart(note=UNKNOWN)
    if incarnation != str(facts.incarnation):
        return TailStart(note=OTHER_TOPIC)
    return TailStart(start.offsets)
