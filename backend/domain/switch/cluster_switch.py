"""Event stream `switch-<id>`: a switch moves the clients of some environments from one cluster to another.

    planned --> holding --> draining --> closing --> retargeting --> moving --> verifying --> completed
       |           |           |            |             |            |
       |           |<----------+------------+-------------+------------+   a hold that timed out starts again
       +-----------+-----------+------------+-------------+------------+--> aborted | failed

`ClientsMoved` is the point of no return: everything before it can be undone; after it, only another switch moves
the clients back. An emergency switch goes from `planned` to `verifying` in the command that starts it. The first
event holds which clients move and the generation they get. The runner (`workers/switches`) executes the switch.
Commands and decisions are in `switch_commands.py`.
Sources: design, "Discovery and cluster switch"; docs/decisions/0034.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, get_args

from backend.domain.base.event import Event

PLANNED, EMERGENCY = MODES = ("planned", "emergency")
TO_TARGET, ALL_LEAVES = DRAINS = ("target", "all_leaves")
FIRST_GENERATION = 1
"""Generation of every environment until its first switch."""
MARKED = "marked_at"
"""Key among a planned move's measurements: position of the event after which the source's log ends were read.
Records that a client wrote before that event, and not since, are on the target."""


class Phase(StrEnum):
    """Phase of a switch."""

    PLANNED = "planned"
    HOLDING = "holding"
    """Producers are told to hold; the phase lasts until all of them have confirmed."""
    DRAINING = "draining"
    """The records that the source held at the start of the phase are copied to the target."""
    CLOSING = "closing"
    """Consumers commit and close; their offsets are translated to the target."""
    RETARGETING = "retargeting"
    """Distributors that copy to the source get other targets."""
    MOVING = "moving"
    VERIFYING = "verifying"
    """Clients are sent to the target; the worker checks that they arrive."""
    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"
    """Aborted by the worker because it could not continue."""


BEFORE_MOVE = (
    Phase.PLANNED,
    Phase.HOLDING,
    Phase.DRAINING,
    Phase.CLOSING,
    Phase.RETARGETING,
    Phase.MOVING,
)
HELD = BEFORE_MOVE[1:]
"""Phases in which producers hold."""
CLOSED = (Phase.CLOSING, Phase.RETARGETING, Phase.MOVING)
"""Phases in which consumers are closed."""
ENDED = (Phase.COMPLETED, Phase.ABORTED, Phase.FAILED)
NEAR_RECORDS = 5_000
"""Records the target may lack when clients are told to hold; a backlog of this size is copied within moments."""

# --- events


@dataclass(frozen=True, kw_only=True)
class Moving:
    """Clients that a switch moves: those of an environment, or of a zone of it with its own active cluster."""

    tenant: str
    instance: str
    environment: str
    zone: str | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """Return (tenant, instance, environment)."""
        return self.tenant, self.instance, self.environment


@dataclass(frozen=True, kw_only=True)
class Retarget:
    """Change of a distributor's target as part of a switch."""

    cluster: str
    level: int
    target: str
    previous: str
    """Target before the switch; a reverse switch restores it."""


@dataclass(frozen=True, kw_only=True)
class SwitchStarted(Event, name="SwitchStarted", version=1):
    """An operator started a switch; discovery does not answer differently yet."""

    switch: str
    source: str
    target: str
    mode: str
    """`planned` or `emergency`."""
    moves: tuple[Moving, ...]
    generation: int
    """Generation that clients get with the move; above every generation these environments have had."""
    drain: str
    """`target`: wait until the target has all records of the source; `all_leaves`: until every online leaf has."""
    retargets: tuple[Retarget, ...]
    plan_digest: str | None
    reverses: str | None
    """Id of the switch that this one reverses."""


@dataclass(frozen=True, kw_only=True)
class SwitchAdvanced(Event, name="SwitchAdvanced", version=1):
    """The switch entered another phase."""

    switch: str
    phase: str
    previous: str
    measured: dict[str, Any]
    """Measurements of the phase that ended."""


@dataclass(frozen=True, kw_only=True)
class SwitchForced(Event, name="SwitchForced", version=1):
    """The operator told the switch not to wait for these clients; their writes on the source are at risk."""

    switch: str
    clients: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClientsMoved(Event, name="ClientsMoved", version=1):
    """Discovery sends these clients to the target from now on."""

    switch: str
    source: str
    target: str
    mode: str
    moves: tuple[Moving, ...]
    generation: int
    measured: dict[str, Any]
    """Measurements of the phase that ended."""


@dataclass(frozen=True, kw_only=True)
class SwitchCompleted(Event, name="SwitchCompleted", version=1):
    """The switch checked that clients arrived on the target, and wrote its report."""

    switch: str
    measured: dict[str, Any]
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SwitchAborted(Event, name="SwitchAborted", version=1):
    """The operator aborted the switch before the move; clients continue on the source."""

    switch: str
    phase: str
    """Phase in which the switch was aborted."""
    reason: str | None
    source: str
    moves: tuple[Moving, ...]
    generation: int | None
    """New generation of the clients on the source, if group offsets may have been set on the target under it;
    else null."""


@dataclass(frozen=True, kw_only=True)
class SwitchFailed(Event, name="SwitchFailed", version=1):
    """The switch could not continue and was aborted before the move; clients continue on the source."""

    switch: str
    phase: str
    reason: str
    source: str
    moves: tuple[Moving, ...]
    generation: int | None
    """New generation of the clients on the source, if group offsets may have been set on the target under it;
    else null."""


@dataclass(frozen=True, kw_only=True)
class StrandedRecordsArrived(Event, name="StrandedRecordsArrived", version=1):
    """After an emergency switch, the old cluster is back and every other leaf has the records only it had held."""

    switch: str
    records: int
    """Upper bound of the number of records that arrived late."""
    partitions: tuple[tuple[str, int, int, int], ...]
    """(stream, partition, first offset, last offset) on the old cluster of the records that arrived late."""
    lost: tuple[tuple[str, int, int], ...]
    """(stream, partition, first offset) from which records only the old cluster held are lost, or may be: its log
    was recreated or truncated, or records were deleted from its beginning before their arrival was observed."""


SwitchEvent = (
    SwitchStarted
    | SwitchAdvanced
    | SwitchForced
    | ClientsMoved
    | SwitchCompleted
    | SwitchAborted
    | SwitchFailed
    | StrandedRecordsArrived
)

MOVES_CLIENTS = frozenset(cls.stored_name for cls in (ClientsMoved, SwitchAborted, SwitchFailed))
"""Names of the events that may give clients another generation."""
PHASE_EVENTS = frozenset(cls.stored_name for cls in get_args(SwitchEvent)) - MOVES_CLIENTS
"""Names of the events that only record progress and change nothing desired of clusters or distributors."""

# --- state


@dataclass(frozen=True, kw_only=True)
class Switch:
    """State of a switch, folded from its events."""

    started: SwitchStarted
    phase: Phase = Phase.PLANNED
    forced: frozenset[str] = field(default_factory=frozenset)
    carried: bool = False
    """True once group offsets may have been set on the target."""
    stranded_arrived: bool = False


INITIAL: Switch | None = None

# --- evolve


def evolve(state: Switch | None, event: Event) -> Switch | None:
    """Return the state after an event; ignore events of other versions of this program."""
    if isinstance(event, SwitchStarted):
        return Switch(started=event)
    if state is None:
        return None
    match event:
        case SwitchAdvanced():
            phase = Phase(event.phase)
            return replace(state, phase=phase, carried=state.carried or phase is Phase.CLOSING)
        case SwitchForced():
            return replace(state, forced=state.forced | set(event.clients))
        case ClientsMoved():
            return replace(state, phase=Phase.VERIFYING)
        case SwitchCompleted():
            return replace(state, phase=Phase.COMPLETED)
        case SwitchAborted():
            return replace(state, phase=Phase.ABORTED)
        case SwitchFailed():
            return replace(state, phase=Phase.FAILED)
        case StrandedRecordsArrived():
            return replace(state, stranded_arrived=True)
        case _:
            return state
