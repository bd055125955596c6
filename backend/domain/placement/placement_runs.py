"""Carrying a planned placement out, and back: events and commands of the stream `placement-<id>` from the plan on.

    planned --StartApplying--> applying <--Pause, Resume--> paused
    applying --EndRun--> applied
    applying, paused, rolling-back --Cancel--> cancelling --EndRun--> cancelled
    applying, paused, applied, cancelled --StartRollback--> rolling-back --EndRun--> rolled-back
    cancelled, rolled-back --StartApplying--> applying

A run is refused where the cluster is another one than the plan was made from: then everything is as before it.
Which replica is where is asked of the cluster itself; nothing of that is in an event.
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
    """How far a placement is."""

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
"""A worker is at work on it, and no other placement of the cluster is."""
HAS_PLAN = frozenset(PlacementState) - {PlacementState.REQUESTED, PlacementState.FAILED}


class NamedLimits(TypedDict, total=False):
    """Limits of a run that are to be set. What is not named stays as it is: who changes one shall not take away a
    throttle that somebody else wanted."""

    bytes_per_second: int | None
    moves_per_broker: int
    partitions_at_once: int


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How fast replicas are moved."""

    bytes_per_second: int | None = None
    """That a broker sends, and gets, of replicas that are moved; None: as fast as it can."""
    moves_per_broker: int = 5
    """Moves that a broker takes part in at once."""
    partitions_at_once: int = 1000

    def named(self) -> NamedLimits:
        """All of them."""
        return {
            "bytes_per_second": self.bytes_per_second,
            "moves_per_broker": self.moves_per_broker,
            "partitions_at_once": self.partitions_at_once,
        }


def wrong_limits(limits: RunLimits, where: str = "") -> list[FieldError]:
    """What is wrong with them; `where`: a JSON pointer to them."""
    asked = {
        "bytes_per_second": (limits.bytes_per_second, HIGHEST_RATE),
        "moves_per_broker": (limits.moves_per_broker, MOST_MOVES),
        "partitions_at_once": (limits.partitions_at_once, MOST_MOVES),
    }
    return [
        FieldError(f"{where}/{name}", f"is to be 1 to {most}, and is {value}")
        for name, (value, most) in asked.items()
        if value is not None and not 1 <= value <= most
    ]


# --- events


@dataclass(frozen=True, kw_only=True)
class PlacementRunStarted(Event, name="PlacementRunStarted", version=1):
    """Replicas are to be moved: to where the plan has them, or back to where they were when it was made."""

    placement: str
    cluster: str
    run: int
    back: bool
    limits: RunLimits


@dataclass(frozen=True, kw_only=True)
class PlacementLimitsChanged(Event, name="PlacementLimitsChanged", version=1):
    """It goes on faster, or slower."""

    placement: str
    cluster: str
    limits: RunLimits


@dataclass(frozen=True, kw_only=True)
class PlacementPaused(Event, name="PlacementPaused", version=1):
    """What moves goes on; nothing else is begun."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementResumed(Event, name="PlacementResumed", version=1):
    """It goes on."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementCancelled(Event, name="PlacementCancelled", version=1):
    """What moves is given back; what has moved stays where it is."""

    placement: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class PlacementRunEnded(Event, name="PlacementRunEnded", version=1):
    """Nothing moves any more."""

    placement: str
    cluster: str
    state: str
    """applied, cancelled or rolled-back."""
    report: dict[str, Any]
    """partitions, arrived, elected; names with totals of what was gone, changed by others, grown or not led."""


@dataclass(frozen=True, kw_only=True)
class PlacementRunRefused(Event, name="PlacementRunRefused", version=1):
    """The cluster is another one than the plan was made from; nothing was moved."""

    placement: str
    cluster: str
    state: str
    """In which it is as before."""
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
    """Move replicas as planned; of one that is being applied, change the limits."""

    digest: str
    limits: NamedLimits
    busy: Mapping[str, str]
    """Clusters with the placement that is at work there."""


@dataclass(frozen=True, kw_only=True)
class StartRollback:
    """Move replicas back to where they were when the plan was made."""

    limits: NamedLimits
    busy: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Begin nothing more for now."""


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on."""


@dataclass(frozen=True, kw_only=True)
class Cancel:
    """Give back what moves, and end."""


@dataclass(frozen=True, kw_only=True)
class EndRun:
    """A worker finds nothing more to do."""

    run: int
    after: PlacementState
    """The state that it was found in; in another one there is something to do again."""
    report: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RefuseRun:
    """A worker finds the cluster to be another one."""

    run: int
    reason: str


PlacementRunCommand = StartApplying | StartRollback | Pause | Resume | Cancel | EndRun | RefuseRun
COMES_TO = {
    PlacementState.APPLYING: PlacementState.APPLIED,
    PlacementState.CANCELLING: PlacementState.CANCELLED,
    PlacementState.ROLLING_BACK: PlacementState.ROLLED_BACK,
}
"""Once nothing is left to be done in a state."""
