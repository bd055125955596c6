"""Event stream `offsets-<cluster>`: offsets of groups that an operator has set.

Such an offset is a fresh commit like an application's: it is translated and applied on the other clusters, also if
it lies further back than what the group had read.

    (group) --RecordReset--> reset, any number of times
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event


@dataclass(frozen=True, kw_only=True)
class GroupOffsetsReset(Event, name="GroupOffsetsReset", version=1):
    """An operator has set offsets of a group on a cluster."""

    cluster: str
    stream: str
    group: str
    to: str
    """What was asked for: earliest, latest, an offset, or a time."""
    offsets: dict[str, int]
    """Partition -> the offset that was set."""


@dataclass(frozen=True, kw_only=True)
class RecordReset:
    """Say that offsets were set."""

    cluster: str
    stream: str
    group: str
    to: str
    offsets: dict[str, int]


@dataclass(frozen=True)
class Resets:
    """Nothing that was done limits what may be done."""


INITIAL = Resets()


def decide(state: Resets, command: RecordReset) -> list[GroupOffsetsReset]:
    """Every reset is told."""
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
    """Nothing changes."""
    return state
