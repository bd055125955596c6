"""Event stream `offsets-<cluster>`: resets of groups' offsets by operators.

A reset offset counts as a fresh commit, like an application's: it is translated and applied on the other clusters,
even if it lies before what the group has already read.

    (group) --RecordReset--> reset, any number of times
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event


@dataclass(frozen=True, kw_only=True)
class GroupOffsetsReset(Event, name="GroupOffsetsReset", version=1):
    """An operator reset a group's offsets on a cluster."""

    cluster: str
    stream: str
    group: str
    to: str
    """Requested position: earliest, latest, an offset, or a time."""
    offsets: dict[str, int]
    """Partition -> offset that was set."""


@dataclass(frozen=True, kw_only=True)
class RecordReset:
    """Record that offsets were set."""

    cluster: str
    stream: str
    group: str
    to: str
    offsets: dict[str, int]


@dataclass(frozen=True)
class Resets:
    """State of the stream: empty, since no reset restricts a later one."""


INITIAL = Resets()


def decide(state: Resets, command: RecordReset) -> list[GroupOffsetsReset]:
    """Record every reset."""
    return [
        GroupOffsetsReset(
            cluster=command.cluster,
            stream=command.stream,
            group=command.group,
            to=command.to,
            offsets=command.offsets,
        )
    ]


def evolve(state: Resets, event: Event) -> Resets:
    """Keep the state: resets do not change it."""
    return state
