"""Event stream `placement-policy-<cluster>`: the reaction to brokers that join or leave.

    (none) --SetPolicy--> set, any number of times

Without an event plans are only proposed: nothing moves that no operator has approved. (replication-design.txt,
"When a new broker is added, we will automatically move some partitions"; placement.md, "Applying".)
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
    """The reaction to brokers that join or leave; OFF does nothing."""

    OFF = "off"
    PROPOSE = "propose"
    """A plan is made, which an operator reviews and applies."""
    APPLY = "apply"
    """The plan is applied, unless it needs an operator's review."""


@dataclass(frozen=True, kw_only=True)
class PlacementPolicy:
    """The placement policy of a cluster."""

    policy: Policy = Policy.PROPOSE
    away_minutes: int = 30
    """Minutes after which a broker that is away has left.

    Longer than a restart with recovery of all logs: moving replicas needlessly costs more than missing them
    meanwhile.
    """
    limits: RunLimits = field(default_factory=RunLimits)
    """Limits of the runs that the policy starts."""


# --- events


@dataclass(frozen=True, kw_only=True)
class PlacementPolicySet(Event, name="PlacementPolicySet", version=1):
    """The cluster's policy was set; every field is the full new value."""

    cluster: str
    policy: str
    away_minutes: int
    limits: RunLimits


# --- commands


@dataclass(frozen=True, kw_only=True)
class SetPolicy:
    """Set the policy of a cluster."""

    cluster: str
    wanted: PlacementPolicy
    present: PlacementPolicy
    """Policy in force now; a removed cluster of the same name may have had another."""
    known_clusters: Collection[str]


# --- state


@dataclass(frozen=True)
class Policies:
    """No state: earlier policies do not limit later ones."""


INITIAL = Policies()


def decide(state: Policies, command: SetPolicy) -> list[PlacementPolicySet]:
    """Set the policy; no event if it is unchanged. Raises NotFound or ValueInvalid."""
    if command.cluster not in command.known_clusters:
        raise NotFound(f"there is no cluster {command.cluster[:60]!r}; GET /clusters lists them")
    wanted = command.wanted
    errors = wrong_limits(wanted.limits, "/limits")
    if not 1 <= wanted.away_minutes <= LONGEST_AWAY_MINUTES:
        detail = f"must be from 1 to {LONGEST_AWAY_MINUTES}, not {wanted.away_minutes}"
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
    """Return the state unchanged."""
    return state


def event_stream(cluster: str) -> str:
    """Return the event stream of a cluster's policy."""
    return f"placement-policy-{cluster}"
