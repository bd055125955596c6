"""Execution and rollback of a planned placement: events and commands of `placement-<id>` after the plan.

    planned --StartApplying--> applying <--Pause, Resume--> paused
    applying --EndRun--> applied
    applying, paused, rolling-back --Cancel--> cancelling --EndRun--> cancelled
    applying, paused, applied, cancelled --StartRollback--> rolling-back --EndRun--> rolled-back
    cancelled, rolled-back --StartApplying--> applying

A run is refused if the cluster differs from the state that the plan was made from; the placement then returns to
its previous state. The locations of replicas are always read from the cluster; no event contains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict

from backend.domain.base.errors import FieldError
from backend.domain.base.event import Event

MOST_MOVES = 1_000_000
HIGHEST_RATE = 2**62


class PlacementState(StrEnum):
    """The state of a placement."""

    REQUESTED = "requested"
    PLANNED = "planned"
    FAILED = "failed"
    APPLYING = "applying"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    ROLLING_BACK = "rolling-back"
    APPLIED = "applied"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled-back"


RUNNING = frozenset(
    {PlacementState.APPLYING, PlacementState.PAUSED, PlacementState.CANCELLING, PlacementState.ROLLING_BACK}
)
"""States in which a worker executes the placement; only one placement of a cluster may be in one of them."""
HAS_PLAN = frozenset(PlacementState) - {PlacementState.REQUESTED, PlacementState.FAILED}


class NamedLimits(TypedDict, total=False):
    """Limits of a run to set.

    Omitted limits stay as they are, so that changing one does not remove a throttle that another operator wanted.
    """

    bytes_per_second: int | None
    moves_per_broker: int
    partitions_at_once: int


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """Limits of moving replicas."""

    bytes_per_second: int | None = None
    """Replication throttle in bytes per second that a broker sends and receives; None for no throttle."""
    moves_per_broker: int = 5
    """Number of concurrent moves that a broker takes part in."""
    partitions_at_once: int = 1000

    def named(self) -> NamedLimits:
        """Return all limits as settable values."""
        return {
            "bytes_per_second": self.bytes_per_second,
            "moves_per_broker": self.moves_per_broker,
            "partitions_at_once": self.partitions_at_once,
        }


def wrong_limits(limits: RunLimits, where: str = "") -> list[FieldError]:
    """Return what is wrong with limits; `where` is the JSON pointer to them."""
    asked = {
        "bytes_per_second": (limits.bytes_per_second, HIGHEST_RATE),
        "moves_per_broker": (limits.moves_per_broker, MOST_MOVES),
        "partitions_at_once": (limits.partitions_at_once, MOST_MOVES),
    }
    return [
        FieldError(f"{where}/{name}", f"must be from 1 to {most}, not {value}")
        for name, (value, most) in asked.items()
        if value is not None and not 1 <= value <= most
    ]


# --- events


@dataclass(frozen=True, kw_only=True)
class PlacementRunStarted(Event, name="PlacementRunStarted", version=1):
    """A run began to move replicas to their planned brokers, or back to where they were when the plan was made."""

    placement: str
    cluster: str
    run: int
    back: bool
    limits: RunLimits


@dataclass(frozen=True, kw_only=True)
class PlacementLimitsChanged(Event, name="PlacementLimitsChanged", version=1):
    """The limits of the run were changed."""

    placement: str
    cluster: str
    limits: RunLimits


@dataclass(frozen=True, kw_only=True)
class PlacementPaused(Event, name="PlacementPaused", version=1):
    """The run was paused: ongoing moves continue, and no others begin."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementResumed(Event, name="PlacementResumed", version=1):
    """The run was resumed."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementCancelled(Event, name="PlacementCancelled", version=1):
    """The run was cancelled: ongoing moves are cancelled, and completed ones stay."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementRunEnded(Event, name="PlacementRunEnded", version=1):
    """The run ended; nothing moves any more."""

    placement: str
    cluster: str
    state: str
    """New state: applied, cancelled or rolled-back."""
    report: dict[str, Any]
    """Numbers of partitions, arrived and elected; names and totals of those deleted, changed by others, grown or
    not led."""


@dataclass(frozen=True, kw_only=True)
class PlacementRunRefused(Event, name="PlacementRunRefused", version=1):
    """The cluster differs from the state that the plan was made from; nothing was moved."""

    placement: str
    cluster: str
    state: str
    """State to which the placement returns."""
    reason: str


PlacementRunEvent = (
    PlacementRunStarted
    | PlacementLimitsChanged
    | PlacementPaused
    | PlacementResumed
    | PlacementCancelled
    | PlacementRunEnded
    | PlacementRunRefused
)

# --- commands


@dataclass(frozen=True, kw_only=True)
class StartApplying:
    """Move replicas as planned; of a placement that is being applied, change the limits."""

    digest: str
    limits: NamedLimits
    busy: Mapping[str, str]
    """Clusters with the placement that is being executed there."""


@dataclass(frozen=True, kw_only=True)
class StartRollback:
    """Move replicas back to where they were when the plan was made."""

    limits: NamedLimits
    busy: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Begin no further moves for now."""


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Resume the run."""


@dataclass(frozen=True, kw_only=True)
class Cancel:
    """Cancel ongoing moves and end the run."""


@dataclass(frozen=True, kw_only=True)
class EndRun:
    """Record that a worker finds nothing left to do."""

    run: int
    after: PlacementState
    """State that the worker found; if it has changed since, there is work again."""
    report: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RefuseRun:
    """Record that a worker finds the cluster changed since the plan was made."""

    run: int
    reason: str


PlacementRunCommand = StartApplying | StartRollback | Pause | Resume | Cancel | EndRun | RefuseRun
COMES_TO = {
    PlacementState.APPLYING: PlacementState.APPLIED,
    PlacementState.CANCELLING: PlacementState.CANCELLED,
    PlacementState.ROLLING_BACK: PlacementState.ROLLED_BACK,
}
"""The final state of each state in which work can be completed."""
