"""Event stream `replication-<cluster>`: elections of preferred leaders that an operator asked a cluster for.

Who leads what is the cluster's own business and observed; that somebody had it changed is kept.

    (partitions) --RecordElection--> led by their preferred brokers, any number of times
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

MOST_TOPICS = 1000
"""That an operator may name at once."""


@dataclass(frozen=True, kw_only=True)
class PreferredLeadersElected(Event, name="PreferredLeadersElected", version=1):
    """Preferred brokers were asked to lead their partitions, and do."""

    cluster: str
    topics: tuple[str, ...] | None
    """What was asked for; None: all topics."""
    elected: int
    """Partitions that their preferred broker leads since."""
    refused: dict[str, int]
    """Why others are still led by another broker -> how many partitions."""


@dataclass(frozen=True, kw_only=True)
class RecordElection:
    """Say what came of an election."""

    cluster: str
    topics: tuple[str, ...] | None
    elected: int
    refused: dict[str, int]


def event_stream(cluster: str) -> str:
    """Of a cluster's elections."""
    return f"replication-{cluster}"


@dataclass(frozen=True)
class Elections:
    """Nothing that was done limits what may be done."""


INITIAL = Elections()


def decide(state: Elections, command: RecordElection) -> list[PreferredLeadersElected]:
    """Every election by which anything changed is told."""
    if not command.elected:
        return []
    return [
        PreferredLeadersElected(
            cluster=command.cluster,
            topics=command.topics,
            elected=command.elected,
            refused=command.refused,
        )
    ]


def evolve(state: Elections, event: Event) -> Elections:
    """Nothing changes."""
    return state
