"""Event stream `replication-<cluster>`: preferred leader elections that an operator requested.

Leadership itself is observed from the cluster; the stream records that an operator changed it.

    (partitions) --RecordElection--> led by their preferred brokers, any number of times
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

MOST_TOPICS = 1000
"""Number of topics that an operator may name in one request."""


@dataclass(frozen=True, kw_only=True)
class PreferredLeadersElected(Event, name="PreferredLeadersElected", version=1):
    """Partitions were returned to their preferred leaders."""

    cluster: str
    topics: tuple[str, ...] | None
    """Requested topics; None for all topics."""
    elected: int
    """Number of partitions that the election gave back to their preferred broker."""
    refused: dict[str, int]
    """Number of partitions that another broker still leads, by reason."""


@dataclass(frozen=True, kw_only=True)
class RecordElection:
    """Record the result of an election."""

    cluster: str
    topics: tuple[str, ...] | None
    elected: int
    refused: dict[str, int]


def event_stream(cluster: str) -> str:
    """Return the event stream of a cluster's elections."""
    return f"replication-{cluster}"


@dataclass(frozen=True)
class Elections:
    """No state: earlier elections do not limit later ones."""


INITIAL = Elections()


def decide(state: Elections, command: RecordElection) -> list[PreferredLeadersElected]:
    """Record an election if it changed any leader."""
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
    """Return the state unchanged."""
    return state
