"""Event stream `placement-<id>`: a new placement of a cluster's replicas, from the wish to the plan.

    (none) --Request--> requested --RecordPlan--> planned
                            \\--RecordFailure--> failed

A worker reads the cluster and computes. What the plan is made from, and which replica goes where, is too large for
an event, and is kept beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from backend.domain.errors import AlreadyExists, FieldError, NotFound, ValueInvalid
from backend.domain.event import Event

HIGHEST_BROKER = 2**31 - 1
MOST_NAMED = 10_000
"""Brokers or topics that a wish names."""
MOST_REPLICAS = 100


class PlacementState(StrEnum):
    """How far a placement is."""

    REQUESTED = "requested"
    PLANNED = "planned"
    FAILED = "failed"


# --- events


@dataclass(frozen=True, kw_only=True)
class Aims:
    """What is wished for; what is left out stays as it is."""

    target_brokers: tuple[int, ...] | None = None
    """Those that are to hold replicas; None: all that the cluster has."""
    replication_factor: int | None = None
    """Of all topics but those of `replication_factors`."""
    replication_factors: dict[str, int] = field(default_factory=dict)
    """By topic."""
    excluded_topics: tuple[str, ...] = ()
    no_leaders: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlacementRequested(Event, name="PlacementRequested", version=1):
    """A plan for the replicas of a cluster was asked for."""

    placement: str
    cluster: str
    aims: Aims


@dataclass(frozen=True, kw_only=True)
class PlacementPlanned(Event, name="PlacementPlanned", version=1):
    """It was computed."""

    placement: str
    cluster: str
    digest: str
    summary: dict[str, Any]
    """moves, lower_bound, moved_bytes, leader_changes, largest_share, partitions, and violations by constraint."""


@dataclass(frozen=True, kw_only=True)
class PlacementFailed(Event, name="PlacementFailed", version=1):
    """There is no plan; nothing was moved."""

    placement: str
    cluster: str
    reason: str


PlacementEvent = PlacementRequested | PlacementPlanned | PlacementFailed

# --- commands


@dataclass(frozen=True, kw_only=True)
class RequestPlacement:
    """Ask for a plan."""

    placement: str
    cluster: str
    aims: Aims
    known_clusters: Collection[str]


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """What a worker has computed."""

    digest: str
    summary: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RecordFailure:
    """Why a worker could not."""

    reason: str


PlacementCommand = RequestPlacement | RecordPlan | RecordFailure

# --- state


@dataclass(frozen=True, kw_only=True)
class Placement:
    """As far as it has come."""

    id: str
    cluster: str
    state: PlacementState


INITIAL: Placement | None = None

# --- decide


def decide(state: Placement | None, command: PlacementCommand) -> list[PlacementEvent]:
    """Events that carry the command out. Raises AlreadyExists, NotFound or ValueInvalid."""
    if isinstance(command, RequestPlacement):
        if state is not None:
            raise AlreadyExists(f"there is a placement {command.placement} already")
        _check(command)
        return [PlacementRequested(placement=command.placement, cluster=command.cluster, aims=command.aims)]
    if state is None:
        raise NotFound("there is no such placement")
    if state.state is not PlacementState.REQUESTED:
        return []  # another worker was faster
    of = {"placement": state.id, "cluster": state.cluster}
    if isinstance(command, RecordPlan):
        return [PlacementPlanned(**of, digest=command.digest, summary=dict(command.summary))]
    return [PlacementFailed(**of, reason=command.reason)]


def _check(command: RequestPlacement) -> None:
    aims, errors = command.aims, []
    if command.cluster not in command.known_clusters:
        errors.append(FieldError("/cluster", f"there is no cluster {command.cluster[:60]!a}"))
    for name, brokers in (("target_brokers", aims.target_brokers or ()), ("no_leaders", aims.no_leaders)):
        errors += [
            FieldError(f"/{name}/{at}", f"is to be a broker's id, and is {broker}")
            for at, broker in enumerate(brokers)
            if not 0 <= broker <= HIGHEST_BROKER
        ]
    if aims.target_brokers == ():
        errors.append(FieldError("/target_brokers", "names no broker; name those that are to hold replicas"))
    factors = dict(aims.replication_factors)
    if aims.replication_factor is not None:
        factors[""] = aims.replication_factor
    errors += [
        FieldError(f"/replication_factor/{topic}".rstrip("/"), f"is to be 1 to {MOST_REPLICAS}, and is {factor}")
        for topic, factor in factors.items()
        if not 1 <= factor <= MOST_REPLICAS
    ]
    named = (aims.target_brokers or (), aims.no_leaders, aims.excluded_topics, aims.replication_factors)
    if any(len(each) > MOST_NAMED for each in named):
        errors.append(FieldError("", f"more than {MOST_NAMED} brokers or topics are named"))
    if errors:
        raise ValueInvalid(errors[0].detail, tuple(errors[:100]))


# --- evolve


def evolve(state: Placement | None, event: Event) -> Placement | None:
    """The state after an event; what does not apply leaves the state as it was."""
    match event:
        case PlacementRequested():
            return Placement(id=event.placement, cluster=event.cluster, state=PlacementState.REQUESTED)
        case PlacementPlanned():
            return Placement(id=event.placement, cluster=event.cluster, state=PlacementState.PLANNED)
        case PlacementFailed():
            return Placement(id=event.placement, cluster=event.cluster, state=PlacementState.FAILED)
        case _:
            return state
