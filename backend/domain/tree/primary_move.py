"""How the primary of a tree, the only writer of schemas, becomes another cluster.

Part of event stream `tree-<name>`. The operator begins a move; the schema distributor carries it out as soon as
the new primary has all that the present one has, and records it while nobody can write on the old one. A present
primary that is dead is not waited for: the new one takes over, and skips ids that the old one may have given
unseen.

    (settled) --MovePrimary--> moving --RecordPrimaryMoved--> settled
                               moving --MovePrimary to the present one--> settled
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.event import Event

SKIPPED_IDS = 1000
"""That a dead primary may have given out while nobody could read them; far more than are under way at once."""

# --- events


@dataclass(frozen=True, kw_only=True)
class PrimaryMoveBegun(Event, name="PrimaryMoveBegun", version=1):
    """Another cluster is to be the only writer of schemas."""

    cluster: str
    previous: str
    """The present one, which writes on until the move is done."""
    take_over: bool
    """Whether the present one is dead and not waited for."""


@dataclass(frozen=True, kw_only=True)
class PrimaryMoveCancelled(Event, name="PrimaryMoveCancelled", version=1):
    """The present primary stays what it is."""

    cluster: str
    """The present primary."""


@dataclass(frozen=True, kw_only=True)
class PrimaryMoved(Event, name="PrimaryMoved", version=1):
    """This cluster is the only writer of schemas from now on."""

    cluster: str
    previous: str
    skipped_ids: int
    """How many ids are left out; 0 if the previous one could be read to its end."""


PrimaryEvent = PrimaryMoveBegun | PrimaryMoveCancelled | PrimaryMoved
PRIMARY_EVENTS: tuple[type[Event], ...] = (PrimaryMoveBegun, PrimaryMoveCancelled, PrimaryMoved)

# --- commands


@dataclass(frozen=True, kw_only=True)
class MovePrimary:
    """Begin a move, or with the present primary end one."""

    cluster: str
    take_over: bool = False


@dataclass(frozen=True, kw_only=True)
class RecordPrimaryMoved:
    """Say that the old primary has stopped and the new one has all that can be had."""

    cluster: str
    previous: str
    skipped_ids: int = 0


PrimaryCommand = MovePrimary | RecordPrimaryMoved

# --- state


@dataclass(frozen=True, kw_only=True)
class Move:
    """A move that is under way."""

    cluster: str
    take_over: bool


# --- decide


def decide(
    primary: str, move: Move | None, leaves: Collection[str], command: PrimaryCommand
) -> list[PrimaryEvent]:
    """Events that carry the command out; none if it changes nothing. Raises ValueInvalid."""
    if isinstance(command, RecordPrimaryMoved):
        # Overtaken by another order meanwhile: nothing has moved.
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
    """(primary, move) after an event."""
    match event:
        case PrimaryMoveBegun():
            return primary, Move(cluster=event.cluster, take_over=event.take_over)
        case PrimaryMoveCancelled():
            return primary, None
        case PrimaryMoved():
            return event.cluster, None
