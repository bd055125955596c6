"""Losses with a source topic that was re-created, decided from vectors.

The end of a deleted log cannot be queried. What is known is a **prefix**: an offset before which, by the target's
vector, the target has everything that the edge carries. After the prefix come the records that this task or
another one **saw** there without copying them, and those that no task saw: a record that was written after the
last poll and before the deletion leaves no trace outside that log, so its absence can never be proven. Such
records are reported as possibly lost, never as lost (docs/decisions, 69).

The vector proves what was copied, by other edges as well; none of that is reported as lost. A task that already
reads the new topic has reported the loss, and a target that has no record of the source yet loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from backend.domain.distribution.rescan import BEGINNING, Checkpoint
from backend.domain.records import origin
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.marks import Position
from backend.domain.records.origin import Vector

SeenEnd = tuple[int, int]
"""(Incarnation of the topic's newest records, offset below which the log was seen to hold records)."""


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Records of one partition of a former topic that the target may lack."""

    first_offset: int
    """Offset before which the target has everything that the edge carries."""
    at_least: int
    """Number of offsets from `first_offset` on that were seen and not read; 0 if a loss is only possible."""


def unread(
    number: int,
    incarnations: Incarnations,
    carried: Collection[int],
    *,
    own: Position | None,
    covered: Vector,
    checkpoints: Iterable[Checkpoint],
    seen_end: SeenEnd | None,
) -> Unread | None:
    """Return the possible loss of one partition; None if its topic is unchanged, or the loss was already reported.

    `number`: the source's number; `incarnations`: those of its partition now; `carried`: numbers of the origins
    whose records the edge carries; `covered`: the target's vector; `checkpoints`: those of the source's partition,
    none if no origins are written; `seen_end`: the end that the task saw beyond its position.
    """
    reached = covered.get(number)
    # Without a position the vector decides: it has the highest of all copied records of the source's own.
    former = own.mark.incarnation if own is not None else reached[0] if reached is not None else incarnations[0][1]
    if former >= incarnations[0][1]:
        return None
    of_former = [each for each in checkpoints if each.incarnation == former]
    prefixes = [*of_former, *_own_prefixes(number, former, carried, own, reached)]
    fit = (each.offset for each in prefixes if origin.covers(covered, each.seen, carried))
    first = max(fit, default=BEGINNING.offset)
    if reached is not None and reached[0] > former:
        # Some records that this edge has not read may have arrived with later ones, over another edge.
        return Unread(first_offset=first, at_least=0)
    missing = max(first, reached[1] + 1) if reached is not None and reached[0] == former else first
    seen = [missing]
    if seen_end is not None and seen_end[0] == former:
        seen.append(seen_end[1])
    for each in of_former:
        last_seen = each.seen.get(number)
        if last_seen is not None and last_seen[0] == former and (reached is None or last_seen > reached):
            seen.append(last_seen[1] + 1)
    return Unread(first_offset=first, at_least=max(seen) - missing)


def of_present_topic(own: Position | None, incarnations: Incarnations) -> Position | None:
    """Return the task's position, unless it lies in a former topic."""
    return own if own is not None and own.mark.incarnation >= incarnations[0][1] else None


def _own_prefixes(
    number: int,
    former: int,
    carried: Collection[int],
    own: Position | None,
    reached: tuple[int, int] | None,
) -> Iterator[Checkpoint]:
    """Yield the prefixes of the former log that the target itself proves."""
    if own is not None and own.mark.incarnation == former:
        yield Checkpoint(own.offset, former, own.mark.seen)
    # Records of other origins may lie before the last of the source's own records that the target has.
    if reached is not None and reached[0] == former and set(carried) == {number}:
        yield Checkpoint(reached[1] + 1, former, {number: reached})
