"""Event stream `origin-<number>`: the leaves from which the records of a cluster that left the tree continue.

(none) --Reroot--> rerooted --Reroot (its leaf left, or another one holds more)--> rerooted
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.domain.base.event import Event

# --- events


@dataclass(frozen=True, kw_only=True)
class OriginRerooted(Event, name="OriginRerooted", version=1):
    """Records first produced on a cluster that left the tree take the route of another leaf from now on."""

    number: int
    """Number of the cluster that left."""
    partitions: tuple[tuple[str, int, str], ...]
    """(Stream, partition, leaf that holds most of the records) of the partitions that change."""


# --- commands


@dataclass(frozen=True, kw_only=True)
class Reroot:
    """Set the leaf from which each of these partitions continues."""

    number: int
    roots: Mapping[tuple[str, int], str]


# --- state


@dataclass(frozen=True, kw_only=True)
class LostOrigin:
    """Root leaf of each (stream, partition)."""

    roots: Mapping[tuple[str, int], str] = field(default_factory=dict)


INITIAL = LostOrigin()

# --- decide


def decide(state: LostOrigin, command: Reroot) -> list[OriginRerooted]:
    """Return one event with the partitions whose root changes."""
    changed = sorted(
        (stream, partition, leaf)
        for (stream, partition), leaf in command.roots.items()
        if state.roots.get((stream, partition)) != leaf
    )
    return [OriginRerooted(number=command.number, partitions=tuple(changed))] if changed else []


# --- evolve


def evolve(state: LostOrigin, event: Event) -> LostOrigin:
    """Return the state after an event; events of other versions of this program never raise."""
    if not isinstance(event, OriginRerooted):
        return state
    return LostOrigin(roots={**state.roots, **{(stream, p): leaf for stream, p, leaf in event.partitions}})
