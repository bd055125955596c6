"""Moves of a tree's primary cluster, the only writer of schemas.

Part of event stream `tree-<name>`. The operator starts a move; the schema distributor completes it as soon as the
new primary has every schema of the current one, and records it while nothing can be written to the old one. With
`take_over` the current primary is unreachable and not waited for: the new one takes over, and skips ids that the
old one may have assigned unseen.

    (settled) --MovePrimary--> moving --RecordPrimaryMoved--> settled
                               moving --MovePrimary to the present one--> settled
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.event import Event

SKIPPED_IDS = 1000
"""Number of ids that an unreachable primary may have assigned unread; far more than are ever in flight at once."""

# --- events


@dataclass(frozen=True, kw_only=True)
class PrimaryMoveBegun(Event, name="PrimaryMoveBegun", version=1):
    """A move of the primary to another cluster has started."""

    cluster: str
    previous: str
    """The current primary, which writes until the move is complete."""
    take_over: bool
    """True if the current primary is unreachable and not waited for."""


@dataclass(frozen=True, kw_only=True)
class PrimaryMoveCancelled(Event, name="PrimaryMoveCancelled", version=1):
    """A move was cancelled; the current primary stays."""

    cluster: str
    """The current primary."""


@dataclass(frozen=True, kw_only=True)
class PrimaryMoved(Event, name="PrimaryMoved", version=1):
    """The move is complete: the new primary is the only writer of schemas from now on."""

    cluster: str
    previous: str
    skipped_ids: int
    """Number of ids that are skipped; 0 if the previous primary could be read to its end."""


PrimaryEvent = PrimaryMoveBegun | PrimaryMoveCancelled | PrimaryMoved
PRIMARY_EVENTS: tuple[type[Event], ...] = (PrimaryMoveBegun, PrimaryMoveCancelled, PrimaryMoved)

# --- commands


@dataclass(frozen=True, kw_only=True)
class MovePrimary:
    """Start a move; naming the current primary cancels one."""

    cluster: str
    take_over: bool = False


@dataclass(frozen=True, kw_only=True)
class RecordPrimaryMoved:
    """Record that the old primary has stopped and the new one has everything that could be read."""

    cluster: str
    previous: str
    skipped_ids: int = 0


PrimaryCommand = MovePrimary | RecordPrimaryMoved

# --- state


@dataclass(frozen=True, kw_only=True)
class Move:
    """A move in progress."""

    cluster: str
    take_over: bool


# --- decide


def decide(
    primary: str, move: Move | None, leaves: Collection[str], command: PrimaryCommand
) -> list[PrimaryEvent]:
    """Return the events that carry out the command; none if it changes nothing. Raises ValueInvalid."""
    if isinstance(command, RecordPrimaryMoved):
        # Superseded by another command in the meantime: nothing has moved.
        if move is None or (move.cluster, primary) != (command.cluster, command.previous):
            return []
        return [PrimaryMoved(**vars(command))]
    if command.cluster not in leaves:
        listed = ", ".join(sorted(leaves))
        raise ValueInvalid(
            f"{command.cluster!r} is not a leaf of the tree; only one of {listed} can be the primary",
            (FieldError("/cluster", f"must be one of {listed}"),),
        )
    if command.cluster == primary:
        return [PrimaryMoveCancelled(cluster=primary)] if move else []
    if move == Move(cluster=command.cluster, take_over=command.take_over):
        return []
    return [PrimaryMoveBegun(cluster=command.cluster, previous=primary, take_over=command.take_over)]


# --- evolve


def evolve(primary: str | None, move: Move | None, event: PrimaryEvent) -> tuple[str | None, Move | None]:
    """Return (primary, move) after an event."""
    match event:
        case PrimaryMoveBegun():
            return primary, Move(cluster=event.cluster, take_over=event.take_over)
        case PrimaryMoveCancelled():
            return primary, None
        case PrimaryMoved():
            return event.cluster, None
