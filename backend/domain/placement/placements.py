"""Event stream `placement-<id>`: a placement of a cluster's replicas, from the request to the plan.

    (none) --RequestPlacement, SubmitReassignment--> requested --RecordPlan--> planned
                                                   \\--RecordFailure--> failed

A worker reads the cluster and computes the plan. The input of the plan, and the replicas in it, are too large for
an event and are stored beside the events. See `placement_runs` for what follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backend.domain.base.errors import AlreadyExists, FieldError, NotFound, PlanStale, StateConflict, ValueInvalid
from backend.domain.base.event import Event
from backend.domain.base.limits import refuse
from backend.domain.placement.placement_aims import Aims, wrong_aims
from backend.domain.placement.placement_proposals import (
    HoldBack,
    PlacementHeldBack,
    PlacementProposalEvent,
    PlacementProposed,
    Proposal,
)
from backend.domain.placement.placement_runs import (
    COMES_TO,
    RUNNING,
    Cancel,
    EndRun,
    NamedLimits,
    Pause,
    PlacementCancelled,
    PlacementLimitsChanged,
    PlacementPaused,
    PlacementResumed,
    PlacementRunCommand,
    PlacementRunEnded,
    PlacementRunEvent,
    PlacementRunRefused,
    PlacementRunStarted,
    PlacementState,
    RefuseRun,
    Resume,
    RunLimits,
    StartApplying,
    StartRollback,
    wrong_limits,
)

# --- events


@dataclass(frozen=True, kw_only=True)
class PlacementRequested(Event, name="PlacementRequested", version=2):
    """A plan for the replicas of a cluster was requested."""

    placement: str
    cluster: str
    aims: Aims


@dataclass(frozen=True, kw_only=True)
class PlacementGiven(Event, name="PlacementGiven", version=1):
    """A reassignment in Kafka's format was submitted, to be checked against a cluster."""

    placement: str
    cluster: str
    partitions: int
    """Number of partitions that it lists."""
    digest: str
    """Digest of the document, which is stored beside the event."""


@dataclass(frozen=True, kw_only=True)
class PlacementPlanned(Event, name="PlacementPlanned", version=1):
    """The plan was computed."""

    placement: str
    cluster: str
    digest: str
    summary: dict[str, Any]
    """moves, lower_bound, moved_bytes, leader_changes, largest_share, partitions, and violations by constraint."""


@dataclass(frozen=True, kw_only=True)
class PlacementFailed(Event, name="PlacementFailed", version=1):
    """No plan could be made; nothing was moved."""

    placement: str
    cluster: str
    reason: str


PlacementEvent = (
    PlacementRequested
    | PlacementGiven
    | PlacementPlanned
    | PlacementFailed
    | PlacementProposalEvent
    | PlacementRunEvent
)

# --- commands


@dataclass(frozen=True, kw_only=True)
class RequestPlacement:
    """Request a plan."""

    placement: str
    cluster: str
    aims: Aims
    known_clusters: Collection[str]
    declared_factors: Mapping[str, int] = field(default_factory=dict)
    """Declared replication factor of the cluster's topics, if the request asks for these."""
    brokers: int = 0
    """Number of brokers of the cluster."""
    proposal: Proposal | None = None
    """Reason of a worker that requests the plan; None for other callers."""


@dataclass(frozen=True, kw_only=True)
class SubmitReassignment:
    """Submit a reassignment to be checked, and used as the plan if it is valid."""

    placement: str
    cluster: str
    partitions: int
    digest: str
    known_clusters: Collection[str]


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """Record the plan that a worker has computed."""

    digest: str
    summary: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RecordFailure:
    """Record the reason why a worker could not compute a plan."""

    reason: str


PlacementCommand = (
    RequestPlacement | SubmitReassignment | RecordPlan | RecordFailure | HoldBack | PlacementRunCommand
)

# --- state


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The state of a placement."""

    id: str
    cluster: str
    state: PlacementState
    digest: str | None = None
    before: PlacementState = PlacementState.PLANNED
    """State to return to if the present run is refused."""
    run: int = 0
    limits: RunLimits = field(default_factory=RunLimits)
    is_held_back: bool = False


INITIAL: Placement | None = None

# --- decide


def decide(state: Placement | None, command: PlacementCommand) -> list[PlacementEvent]:
    """Return the events that execute the command. Raises AlreadyExists, NotFound or ValueInvalid."""
    if isinstance(command, RequestPlacement | SubmitReassignment):
        if state is not None:
            raise AlreadyExists(f"placement {command.placement} exists already")
        return _decide_new(command)
    if state is None:
        raise NotFound("this placement does not exist; GET /placements lists all placements")
    match command:
        case RecordPlan() | RecordFailure():
            return _decide_plan(state, command)
        case HoldBack():
            return _decide_hold_back(state, command)
        case StartApplying():
            return _decide_apply(state, command)
        case StartRollback():
            return _decide_rollback(state, command)
        case EndRun() | RefuseRun():
            return _decide_end(state, command)
        case _:
            return _decide_course(state, command)


def _decide_new(command: RequestPlacement | SubmitReassignment) -> list[PlacementEvent]:
    errors = []
    if command.cluster not in command.known_clusters:
        errors.append(FieldError("/cluster", f"there is no cluster {command.cluster[:60]!r}"))
    new = {"placement": command.placement, "cluster": command.cluster}
    if isinstance(command, SubmitReassignment):
        refuse(errors)
        return [PlacementGiven(**new, partitions=command.partitions, digest=command.digest)]
    refuse([*errors, *wrong_aims(command.aims)])
    aims = _as_declared(command) if command.aims.as_declared else command.aims
    asked = PlacementRequested(**new, aims=aims)
    proposal = command.proposal
    if proposal is None:
        return [asked]
    policy, joined, left = proposal.policy, proposal.joined, proposal.left
    return [asked, PlacementProposed(**new, policy=policy, joined=joined, left=left)]


def _as_declared(command: RequestPlacement) -> Aims:
    """Resolve declared replication factors; none exceeds the number of target brokers, as for new topics."""
    aims = command.aims
    most = command.brokers if aims.target_brokers is None else len(set(aims.target_brokers))
    factors = {
        topic: min(factor, most)
        for topic, factor in sorted(command.declared_factors.items())
        if topic not in aims.excluded_topics
    }
    if not factors:
        detail = f"no stream has a topic on {command.cluster} whose declared factor could be used"
        raise ValueInvalid(detail, (FieldError("/replication_factor", detail),))
    return replace(aims, replication_factors=factors)


def _decide_plan(state: Placement, command: RecordPlan | RecordFailure) -> list[PlacementEvent]:
    if state.state is not PlacementState.REQUESTED:
        return []  # another worker was faster
    if isinstance(command, RecordPlan):
        return [PlacementPlanned(**_of(state), digest=command.digest, summary=dict(command.summary))]
    return [PlacementFailed(**_of(state), reason=command.reason)]


def _decide_hold_back(state: Placement, command: HoldBack) -> list[PlacementEvent]:
    if state.is_held_back or state.state is not PlacementState.PLANNED:
        return []  # another worker was faster, or an operator
    return [PlacementHeldBack(**_of(state), reason=command.reason)]


def _decide_apply(state: Placement, command: StartApplying) -> list[PlacementEvent]:
    if state.digest is None:
        raise StateConflict(f"placement {state.id} has no plan to apply: it is {state.state}")
    if command.digest != state.digest:
        raise PlanStale(
            f"the plan of placement {state.id} is {state.digest[:12]}, not {command.digest[:12]!r}: review it",
            (FieldError("/digest", "belongs to another plan"),),
        )
    limits = _limits(state, command.limits)
    if state.state in (PlacementState.APPLYING, PlacementState.PAUSED):
        if limits == state.limits:
            return []
        return [PlacementLimitsChanged(**_of(state), limits=limits)]
    if state.state is PlacementState.APPLIED:
        raise StateConflict(f"placement {state.id} has already been applied")
    return [_started(state, limits, command.busy, back=False)]


def _decide_rollback(state: Placement, command: StartRollback) -> list[PlacementEvent]:
    if state.run == 0:
        raise StateConflict(
            f"placement {state.id} has moved nothing that could be rolled back: it is {state.state}"
        )
    if state.state in (PlacementState.ROLLING_BACK, PlacementState.ROLLED_BACK):
        raise StateConflict(f"placement {state.id} is {state.state} already")
    return [_started(state, _limits(state, command.limits), command.busy, back=True)]


def _started(state: Placement, limits: RunLimits, busy: Mapping[str, str], *, back: bool) -> PlacementRunStarted:
    if state.state is PlacementState.CANCELLING:
        raise StateConflict(
            f"placement {state.id} is being cancelled: try again when its ongoing moves are cancelled"
        )
    other = busy.get(state.cluster, state.id)
    if other != state.id:
        raise StateConflict(
            f"placement {other} is moving replicas of {state.cluster}: wait until it ends, or cancel it; two "
            "placements at once would undo each other's moves"
        )
    return PlacementRunStarted(**_of(state), run=state.run + 1, back=back, limits=limits)


def _decide_end(state: Placement, command: EndRun | RefuseRun) -> list[PlacementEvent]:
    if command.run != state.run or state.state not in RUNNING:
        return []
    if isinstance(command, RefuseRun):
        return [PlacementRunRefused(**_of(state), state=str(state.before), reason=command.reason)]
    if command.after is not state.state or state.state not in COMES_TO:
        return []
    return [PlacementRunEnded(**_of(state), state=str(COMES_TO[state.state]), report=dict(command.report))]


def _decide_course(state: Placement, command: Pause | Resume | Cancel) -> list[PlacementEvent]:
    at = state.state
    if isinstance(command, Pause):
        if at is PlacementState.PAUSED:
            return []
        if at is PlacementState.APPLYING:
            return [PlacementPaused(**_of(state))]
    elif isinstance(command, Resume):
        if at is PlacementState.APPLYING:
            return []
        if at is PlacementState.PAUSED:
            return [PlacementResumed(**_of(state))]
    elif at is PlacementState.CANCELLING:
        return []
    elif at in RUNNING:
        return [PlacementCancelled(**_of(state))]
    word = {Pause: "paused", Resume: "resumed", Cancel: "cancelled"}[type(command)]
    raise StateConflict(f"placement {state.id} is {at}: it cannot be {word}")


def _of(state: Placement) -> dict[str, str]:
    return {"placement": state.id, "cluster": state.cluster}


def _limits(state: Placement, named: NamedLimits) -> RunLimits:
    """Return the limits in force; omitted ones keep those of the previous run, or the defaults.

    Raises ValueInvalid.
    """
    limits = replace(state.limits, **named)
    errors = wrong_limits(limits)
    if errors:
        raise ValueInvalid(f"{errors[0].pointer[1:]} {errors[0].detail}", tuple(errors))
    return limits


# --- evolve


def evolve(state: Placement | None, event: Event) -> Placement | None:
    """Return the state after an event; an event that does not apply leaves it unchanged."""
    match event:
        case PlacementRequested() | PlacementGiven():
            return Placement(id=event.placement, cluster=event.cluster, state=PlacementState.REQUESTED)
    if state is None:
        return None
    match event:
        case PlacementPlanned():
            return replace(state, state=PlacementState.PLANNED, digest=event.digest)
        case PlacementFailed():
            return replace(state, state=PlacementState.FAILED)
        case PlacementHeldBack():
            return replace(state, is_held_back=True)
        case PlacementRunStarted():
            to = PlacementState.ROLLING_BACK if event.back else PlacementState.APPLYING
            return replace(state, state=to, before=state.state, run=event.run, limits=event.limits)
        case PlacementLimitsChanged():
            return replace(state, limits=event.limits)
        case PlacementPaused():
            return replace(state, state=PlacementState.PAUSED)
        case PlacementResumed():
            return replace(state, state=PlacementState.APPLYING)
        case PlacementCancelled():
            return replace(state, state=PlacementState.CANCELLING)
        case PlacementRunEnded() | PlacementRunRefused():
            return replace(state, state=PlacementState(event.state))
        case _:
            return state
