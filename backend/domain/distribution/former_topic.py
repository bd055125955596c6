"""What a target may have lost with a source's topic that was made anew: decided from vectors.

A deleted log cannot be asked for its end. What is known of it is a **prefix**: an offset before which, by the
target's vector, the target has everything that the edge carries. Behind it lies what was **seen** there, by this
unit or another one, and not copied; and what nobody has seen: a record that was written after the last look and
before the deletion leaves no trace outside that log, so that "nothing was there" is never proven. It is told as
possible, never as certain (docs/decisions, 69).

What the vector proves is what was copied, also by other ways than this edge: of that nothing is told as lost. A
unit that reads the new topic already has told it, and a target that has nothing of the source yet loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from backend.domain.distribution.rescan import BEGINNING, Checkpoint
from backend.domain.records import origin
from backend.domain.records.births import Births
from backend.domain.records.marks import Position
from backend.domain.records.origin import Vector

SeenEnd = tuple[int, int]
"""(incarnation of the topic's newest records, offset before which the log was seen to hold something)."""


@dataclass(frozen=True, kw_only=True)
class Unread:
    """What one partition of a former topic may have held that the target lacks."""

    first_offset: int
    """Before it, the target has everything that the edge carries."""
    at_least: int
    """So many offsets, from there on, were seen and not read; 0 if it is only possible that records are lost."""


def unread(
    number: int,
    births: Births,
    carried: Collection[int],
    *,
    own: Position | None,
    covered: Vector,
    checkpoints: Iterable[Checkpoint],
    seen_end: SeenEnd | None,
) -> Unread | None:
    """What may be lost of one partition; None if its topic is the one of before, or the loss was told already.

    `number`: of the source; `births`: of its partition as it is now; `carried`: numbers of the origins whose
    records the edge carries; `covered`: the target's vector; `checkpoints`: of the source's partition, none if no
    origins are written; `seen_end`: the end that the unit saw beyond its position.
    """
    reached = covered.get(number)
    # Who has forgotten its position has the vector: the highest of all that was ever copied of the source's own.
    former = own.mark.incarnation if own is not None else reached[0] if reached is not None else births[0][1]
    if former >= births[0][1]:
        return None
    of_former = [each for each in checkpoints if each.incarnation == former]
    prefixes = [*of_former, *_own_prefixes(number, former, carried, own, reached)]
    fit = (each.offset for each in prefixes if origin.covers(covered, each.seen, carried))
    first = max(fit, default=BEGINNING.offset)
    if reached is not None and reached[0] > former:
        # Some of what this edge has not read may have come with the later ones, by another way.
        return Unread(first_offset=first, at_least=0)
    missing = max(first, reached[1] + 1) if reached is not None and reached[0] == former else first
    seen = [missing]
    if seen_end is not None and seen_end[0] == former:
        seen.append(seen_end[1])
    for each in of_former:
        born = each.seen.get(number)
        if born is not None and born[0] == former and (reached is None or born > reached):
            seen.append(born[1] + 1)
    return Unread(first_offset=first, at_least=max(seen) - missing)


def of_present_topic(own: Position | None, births: Births) -> Position | None:
    """The unit's position, unless it is one in a former topic."""
    return own if own is not None and own.mark.incarnation >= births[0][1] else None


def _own_prefixes(
    number: int,
    former: int,
    carried: Collection[int],
    own: Position | None,
    reached: tuple[int, int] | None,
) -> Iterator[Checkpoint]:
    """Prefixes of the former log that the target itself tells of."""
    if own is not None and own.mark.incarnation == former:
        yield Checkpoint(own.offset, former, own.mark.seen)
    # What was born elsewhere may lie before the last one of the source's own that the target has.
    if reached is not None and reached[0] == former and set(carried) == {number}:
        yield Checkpoint(reached[1] + 1, former, {number: reached})
