"""Event stream `placement-policy-<cluster>`: what is done about replicas when brokers come or go.

    (none) --SetPolicy--> set, any number of times

Without an event plans are proposed: nothing moves that nobody looked at. (replication-design.txt, "When a new
broker is added, we will automatically move some partitions"; placement.md, "Applying".)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from backend.domain.base.errors import FieldError, NotFound
from backend.domain.base.event import Event
from backend.domain.base.limits import refuse
from backend.domain.placement.placement_runs import RunLimits, wrong_limits

LONGEST_AWAY_MINUTES = 30 * 24 * 60


class Policy(StrEnum):
    """What is done."""

    OFF = "off"
    PROPOSE = "propose"
    """A plan is made; an operator looks at it, and applies it."""
    APPLY = "apply"
    """It is applied, if there is nothing that an operator is to look at first."""


@dataclass(frozen=True, kw_only=True)
class PlacementPolicy:
    """Of one cluster."""

    policy: Policy = Policy.PROPOSE
    away_minutes: int = 30
    """A broker that is away for longer has left. Longer than a restart takes, with all its logs to be recovered:
    moving its replicas for nothing costs more than that they are missing meanwhile."""
    limits: RunLimits = field(default_factory=RunLimits)
    """How fast replicas are moved that nobody asked for."""


# --- events


@dataclass(frozen=True, kw_only=True)
class PlacementPolicySet(Event, name="PlacementPolicySet", version=1):
    """From now on it is like this; every field is the full new value."""

    cluster: str
    policy: str
    away_minutes: int
    limits: RunLimits


# --- commands


@dataclass(frozen=True, kw_only=True)
class SetPolicy:
    """Have it like this."""

    cluster: str
    wanted: PlacementPolicy
    present: PlacementPolicy
    """As it is now: a cluster of this name that was removed may have had another."""
    known_clusters: Collection[str]


# --- state


@dataclass(frozen=True)
class Policies:
    """Nothing that was set limits what may be set."""


INITIAL = Policies()


def decide(state: Policies, command: SetPolicy) -> list[PlacementPolicySet]:
    """Nothing, if it is so already. Raises NotFound or ValueInvalid."""
    if command.cluster not in command.known_clusters:
        raise NotFound(f"there is no cluster {command.cluster[:60]!r}; GET /clusters lists them")
    wanted = command.wanted
    errors = wrong_limits(wanted.limits, "/limits")
    if not 1 <= wanted.away_minutes <= LONGEST_AWAY_MINUTES:
        detail = f"is to be 1 to {LONGEST_AWAY_MINUTES}, and is {wanted.away_minutes}"
        errors.append(FieldError("/away_minutes", detail))
    refuse(errors)
    if wanted == command.present:
        return []
    return [
        PlacementPolicySet(
            cluster=command.cluster,
            policy=str(wanted.policy),
            away_minutes=wanted.away_minutes,
            limits=wanted.limits,
        )
    ]


def evolve(state: Policies, event: Event) -> Policies:
    """Nothing changes."""
    return state


def event_stream(cluster: str) -> str:
    """Of a cluster's policy."""
    return f"placement-policy-{cluster}"
