"""Detection of drift: differences between a cluster and the state that a plan was made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from backend.placement.errors import few
from backend.placement.execution.steps import Brokers, Place, name


@dataclass(frozen=True, kw_only=True)
class PlannedFrom:
    """The state that a plan was made from, and the brokers that it gives replicas to."""

    replicas: Mapping[Place, Brokers]
    """Replicas of all partitions, not only of those that the plan moves."""
    racks: Mapping[int, str | None]
    needed: Collection[int]
    """Brokers that the plan gives replicas to."""


def drift(
    planned: PlannedFrom,
    replicas: Mapping[Place, Sequence[int]],
    brokers: Mapping[int, str | None],
    ongoing: Collection[Place],
) -> list[str]:
    """Describe what has changed since the plan was made; an empty list if the plan still fits.

    `brokers` are the available ones. New topics are no drift, since the plan says nothing about them.
    """
    topics = {topic for topic, _ in planned.replicas}
    there = {topic for topic, _ in replicas}
    deleted = sorted(topics - there)
    shrunk = sorted(place for place in planned.replicas.keys() - replicas.keys() if place[0] in there)
    grown = sorted(place for place in replicas if place[0] in topics and place not in planned.replicas)
    changed = sorted(
        place
        for place, before in planned.replicas.items()
        if place in replicas and tuple(replicas[place]) != tuple(before)
    )
    away = sorted(broker for broker in planned.needed if broker not in brokers)
    racks = sorted(
        broker for broker, rack in planned.racks.items() if broker in brokers and brokers[broker] != rack
    )
    found: list[tuple[str, Sequence[object]]] = [
        ("replicas are being moved", [name(place) for place in sorted(ongoing)]),
        ("topics were deleted", deleted),
        ("topics have fewer partitions", [name(place) for place in shrunk]),
        ("topics have more partitions", [name(place) for place in grown]),
        ("replicas are elsewhere than when the plan was made", [name(place) for place in changed]),
        ("brokers that are to get replicas are unavailable", away),
        ("brokers are in another rack", racks),
    ]
    return [f"{what} ({few(names)})" for what, names in found if names]
