"""Event stream `switch-<id>`: clients of some environments move from one cluster to another.

    planned --> holding --> draining --> closing --> retargeting --> moving --> verifying --> completed
       |           |           |            |             |            |
       |           |<----------+------------+-------------+------------+   a hold that ran out begins again
       +-----------+-----------+------------+-------------+------------+--> aborted | failed

`ClientsMoved` is the move: before it nothing has happened that cannot be taken back, after it only another switch
leads back. An emergency goes from `planned` to `verifying` in the command that starts it. What a switch moves, and
the generation that it gives, stand in its first event; the runner (`workers/switches`) carries it out. Commands,
and what they decide, stand in `switch_commands.py`.
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
"""Of every environment, until it is switched for the first time."""
MARKED = "marked_at"
"""Of what a planned move measured: position of the event after which it was looked where the source's logs end.
What was written before, by whoever has kept still since, is on the target."""


class Phase(StrEnum):
    """How far a switch is."""

    PLANNED = "planned"
    HOLDING = "holding"
    """Producers are told to hold; it lasts until all have said that they do."""
    DRAINING = "draining"
    """What the source held then comes to the target."""
    CLOSING = "closing"
    """Consumers close; their offsets are carried over."""
    RETARGETING = "retargeting"
    """Distributors that copy to the source get other targets."""
    MOVING = "moving"
    VERIFYING = "verifying"
    """Clients are sent to the target and are looked for there."""
    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"
    """Aborted by the worker, which could not go on."""


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
"""So many records the target may lack for clients to be told to hold: they arrive within the blink of an eye."""

# --- events


@dataclass(frozen=True, kw_only=True)
class Moving:
    """Clients that a switch moves: of an environment, or of one zone of it that has a cluster of its own."""

    tenant: str
    instance: str
    environment: str
    zone: str | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """(tenant, instance, environment)."""
        return self.tenant, self.instance, self.environment


@dataclass(frozen=True, kw_only=True)
class Retarget:
    """A distributor that gets another target with the switch."""

    cluster: str
    level: int
    target: str
    previous: str
    """What it copied to before, and does again if the switch is taken back."""


@dataclass(frozen=True, kw_only=True)
class SwitchStarted(Event, name="SwitchStarted", version=1):
    """An operator has begun a switch; discovery says nothing new yet."""

    switch: str
    source: str
    target: str
    mode: str
    """`planned` or `emergency`."""
    moves: tuple[Moving, ...]
    generation: int
    """That clients will have once they are moved; above any that these environments ever had."""
    drain: str
    """`target`: the target must have all that the source holds; `all_leaves`: every leaf that is online."""
    retargets: tuple[Retarget, ...]
    plan_digest: str | None
    reverses: str | None
    """The switch that this one takes back."""


@dataclass(frozen=True, kw_only=True)
class SwitchAdvanced(Event, name="SwitchAdvanced", version=1):
    """The switch is in another phase from now on."""

    switch: str
    phase: str
    previous: str
    measured: dict[str, Any]
    """What the phase before came to."""


@dataclass(frozen=True, kw_only=True)
class SwitchForced(Event, name="SwitchForced", version=1):
    """The operator does not wait for these clients: what they still do on the source is their risk."""

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
    """What the phase before came to."""


@dataclass(frozen=True, kw_only=True)
class SwitchCompleted(Event, name="SwitchCompleted", version=1):
    """Clients were looked for on the target, and the report is written."""

    switch: str
    measured: dict[str, Any]
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SwitchAborted(Event, name="SwitchAborted", version=1):
    """The operator has taken the switch back before the move; clients go on where they were."""

    switch: str
    phase: str
    """In which it was."""
    reason: str | None
    source: str
    moves: tuple[Moving, ...]
    generation: int | None
    """That clients get where they are, since offsets may have been set on the target under it; else null."""


@dataclass(frozen=True, kw_only=True)
class SwitchFailed(Event, name="SwitchFailed", version=1):
    """The switch could not go on and was taken back before the move; clients go on where they were."""

    switch: str
    phase: str
    reason: str
    source: str
    moves: tuple[Moving, ...]
    generation: int | None
    """That clients get where they are, since offsets may have been set on the target under it; else null."""


@dataclass(frozen=True, kw_only=True)
class StrandedRecordsArrived(Event, name="StrandedRecordsArrived", version=1):
    """After an emergency: the cluster that was left is back, and every other leaf has what it alone had held."""

    switch: str
    records: int
    """At most so many."""
    partitions: tuple[tuple[str, int, int, int], ...]
    """(stream, partition, first offset, last offset) on that cluster, of records that came late."""
    lost: tuple[tuple[str, int, int], ...]
    """(stream, partition, first offset) where what only it had is gone, or may be: the log was made anew or cut
    off, or records were removed from its beginning before they were seen to arrive."""


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
"""Names of those that may give clients another generation."""
PHASE_EVENTS = frozenset(cls.stored_name for cls in get_args(SwitchEvent)) - MOVES_CLIENTS
"""Names of those that tell how far a switch is, and change nothing that is desired of clusters or distributors."""

# --- state


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A switch as its events left it."""

    started: SwitchStarted
    phase: Phase = Phase.PLANNED
    forced: frozenset[str] = field(default_factory=frozenset)
    carried: bool = False
    """Whether offsets of groups may have been set on the target."""
    stranded_arrived: bool = False


INITIAL: Switch | None = None

# --- evolve


def evolve(state: Switch | None, event: Event) -> Switch | None:
    """The state after an event; events of other versions of this program never make it fail."""
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
