"""Schema before data: a record pauses its partition while the target lacks its schema, for a limited time.

Ids are where Confluent's serializers write them, in front of a value or key: a 0 byte, then 4 bytes, big-endian.
Other data may look like that, so an id is waited for only if the gate says so
(docs/decisions/0027-schema-before-data.md). A paused partition is unassigned at the record: its position stays
before the record, and its neighbours continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from backend.domain.records.partition_edge import Header
from backend.kafka.copy.source import Place, Source

if TYPE_CHECKING:
    from backend.kafka.copy.record_loop import CopyTotals, Progress

EVERYWHERE, VALUES, KEYS = range(3)
"""Scope in which an id needs no further check: all records, or one partition's values, or keys."""
Remember = Callable[[int, int], object]
"""Called with (one of the scopes above, id)."""
_WIRE_BYTES = 5
_LOOK_SECONDS = 0.05


class Verdict(Enum):
    """Decision about a record whose schema the target does not have."""

    WAIT = "wait"
    NOBODYS = "nobodys"
    """No schema has this id: the bytes are other data."""
    RAN_OUT = "ran-out"
    """The wait has timed out."""


class SchemaGate(Protocol):
    """Knowledge about the target's schemas, shared by the sessions' threads."""

    @property
    def highest(self) -> int:
        """Return the highest id in use; higher ids are other data, and 0 means that no schema is waited for."""

    @property
    def news(self) -> object:
        """Return an object that changes as soon as an answer may differ from earlier ones."""

    def knows(self, schema_id: int) -> bool:
        """Return whether the target has this schema."""

    def verdict(self, schema_id: int) -> Verdict:
        """Return the decision about an id that the target does not know; the first call starts the wait."""


@dataclass(frozen=True)
class _Held:
    ids: tuple[int, ...]
    since: float


def wire_id(data: bytes | None, highest: int) -> int:
    """Return the id that a value or key starts with; 0 if there is none, or one above the highest."""
    if data is None or len(data) < _WIRE_BYTES or data[0] != 0:
        return 0
    found = int.from_bytes(data[1:_WIRE_BYTES], "big")
    return found if found <= highest else 0


class SchemaWait:
    """Waits of one session: which of its partitions are paused, and for which schemas."""

    def __init__(self, gate: SchemaGate, source: Source, totals: CopyTotals, target: str) -> None:
        self.gate = gate
        self._source, self._totals, self._target = source, totals, target
        self._held: dict[Place, _Held] = {}

    def holds_up(
        self,
        place: Place,
        progress: Progress,
        offset: int,
        ids: tuple[int, int],
        headers: Sequence[Header] | None,
        remember: Remember,
    ) -> bool:
        """Return whether a record has to wait; if so, its partition is paused until `go_on` returns it.

        `ids`: those of value and key that are not remembered yet, 0 where there is none.
        """
        unknown = []
        for part, schema_id in zip((VALUES, KEYS), ids, strict=True):
            if schema_id and self.gate.knows(schema_id):
                remember(EVERYWHERE, schema_id)
            elif schema_id:
                unknown.append((part, schema_id))
        # A record that is not copied needs no schema there.
        if not unknown or not progress.edge.would_copy(offset, headers):
            return False
        waits_for = []
        for part, schema_id in unknown:
            if self.gate.verdict(schema_id) is Verdict.WAIT:
                waits_for.append(schema_id)
            else:
                remember(part, schema_id)
        if not waits_for:
            return False
        self._held[place] = _Held(tuple(waits_for), time.monotonic())
        self._totals.schema_holds += 1
        named = " and ".join(map(str, waits_for))
        self._source.hold(place, f"waits for schema {named}, which {self._target} does not have yet")
        return True

    def is_held(self, place: Place) -> bool:
        """Return whether a partition is paused."""
        return place in self._held

    def forget(self, place: Place) -> None:
        """Forget a partition that is no longer copied."""
        self._held.pop(place, None)

    def shortened(self, wait_seconds: float) -> float:
        """Return the time for which other partitions' records may be waited for."""
        return min(wait_seconds, _LOOK_SECONDS) if self._held else wait_seconds

    def go_on(self) -> list[Place]:
        """Return the partitions whose wait has ended: the source reads them again from their positions."""
        ended = []
        for place, held in list(self._held.items()):
            missing = [each for each in held.ids if not self.gate.knows(each)]
            verdicts = {self.gate.verdict(each) for each in missing}
            if Verdict.WAIT in verdicts:
                continue
            del self._held[place]
            self._totals.schema_held_seconds += time.monotonic() - held.since
            self._totals.schema_waits_run_out += Verdict.RAN_OUT in verdicts
            self._source.release(place)
            ended.append(place)
        return ended
