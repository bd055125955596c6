"""Event stream `route-epochs`: which data the router channel still holds, and which may be deleted from it.

    begun --(fence_lag epochs later)--> fenced --(every main has it in blocks)--> committed

Proxies write under the newest epoch. Mains refuse data of a fenced epoch, so the data announced under that epoch
is complete. All data of a committed epoch is in block objects, and proxies delete it from the channel. The three
numbers only ever rise. Nodes report their progress; reports are observations, not events.
Source: the zone router's document, "RouterChannel Cleanup". There the fence is one epoch behind, which would
refuse data in flight at every tick.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from backend.domain.base.errors import FieldError
from backend.domain.base.event import Event
from backend.domain.base.limits import refuse

EVENT_STREAM = "route-epochs"
UNREACHABLE_AFTER_SECONDS = 30.0
"""Seconds without a report after which a node counts as unreachable."""
GAP_SECONDS = 10.0
"""Longest gap in seconds between consecutive reports of an unbroken series; nodes report every two seconds."""


@dataclass(frozen=True, kw_only=True)
class NodeLiveness:
    """Liveness and progress of a node, taken from its last report."""

    node: str
    is_main: bool
    reported_epoch: int | None
    """Highest epoch of which this main has all data in block objects; None if it cannot tell."""
    open_streams: int
    silent_seconds: float
    """Seconds since the node's last report."""
    unbroken_seconds: float
    """Seconds from the first to the last report of the current series without a gap."""


def unreachable_nodes(nodes: Collection[NodeLiveness]) -> frozenset[str]:
    """Return the nodes that do not report although the control plane was there to receive reports.

    If no node was heard for a while, the control plane itself was down. Each node then gets
    UNREACHABLE_AFTER_SECONDS from the first report that arrives afterwards. Otherwise every node but the first to
    report would count as unreachable for a moment, and the data of the epochs that they hold back would be
    deleted. While no node reports at all, every silent node is unreachable.
    """
    silent = frozenset(each.node for each in nodes if each.silent_seconds >= UNREACHABLE_AFTER_SECONDS)
    heard = [each for each in nodes if each.silent_seconds < GAP_SECONDS]
    listening = max(
        (each.unbroken_seconds + each.silent_seconds for each in heard), default=UNREACHABLE_AFTER_SECONDS
    )
    return silent if listening >= UNREACHABLE_AFTER_SECONDS else frozenset()


def mains_holding_back(nodes: Collection[NodeLiveness]) -> list[NodeLiveness]:
    """Return the mains that hold back the committed epoch, the one furthest behind first.

    An unreachable main without open streams is excluded. One with open streams is included until it returns, as
    the data that it accepted may exist only in the channel. A main that cannot report an epoch counts as epoch 0,
    so nothing is committed.
    """
    dead = unreachable_nodes(nodes)
    counted = [each for each in nodes if each.is_main and (each.node not in dead or each.open_streams > 0)]
    return sorted(counted, key=lambda each: (_epoch_of(each), each.node))


def _epoch_of(node: NodeLiveness) -> int:
    return node.reported_epoch or 0


# --- events


@dataclass(frozen=True, kw_only=True)
class RouteEpochBegun(Event, name="RouteEpochBegun", version=1):
    """A new epoch begins: proxies write under it, and mains refuse fenced epochs."""

    epoch: int
    """The new epoch; one more than the previous one."""
    fenced: int
    """Mains refuse data of this epoch and of older ones; 0 at first."""


@dataclass(frozen=True, kw_only=True)
class RouteEpochCommitted(Event, name="RouteEpochCommitted", version=1):
    """All data of this epoch and older ones is in block objects and is deleted from the channel."""

    epoch: int


# --- commands


@dataclass(frozen=True, kw_only=True)
class BeginEpoch:
    """Begin the next epoch, and commit as far as the nodes' reports allow."""

    fence_lag: int
    """Number of epochs by which the fence trails the current epoch."""
    nodes: Collection[NodeLiveness]


# --- state


@dataclass(frozen=True, kw_only=True)
class RouteEpochs:
    """The current, fenced and committed epoch; all 0 before the first one begins."""

    current: int = 0
    fenced: int = 0
    committed: int = 0


INITIAL = RouteEpochs()


def decide(state: RouteEpochs, command: BeginEpoch) -> list[Event]:
    """Begin the next epoch, and commit the epochs that all mains have in blocks.

    Raises ValueInvalid for a fence that would refuse data of the current epoch.
    """
    if command.fence_lag < 1:
        refuse([FieldError("/fence_lag", f"must be at least 1, but is {command.fence_lag}")])
    begun = RouteEpochBegun(
        epoch=state.current + 1, fenced=max(state.fenced, state.current + 1 - command.fence_lag)
    )
    after = evolve(state, begun)
    reached = _reached(after, command.nodes)
    return [begun, RouteEpochCommitted(epoch=reached)] if reached > state.committed else [begun]


def _reached(state: RouteEpochs, nodes: Collection[NodeLiveness]) -> int:
    """Return the highest epoch of which all data is in blocks; unchanged where no main reports."""
    mains = mains_holding_back(nodes)
    if not mains or all(each.silent_seconds >= UNREACHABLE_AFTER_SECONDS for each in nodes):
        return state.committed
    # A main's report about an epoch that is not fenced is not final: more data may arrive under that epoch.
    return max(state.committed, min(_epoch_of(mains[0]), state.fenced))


def evolve(state: RouteEpochs, event: Event) -> RouteEpochs:
    """Return the state after an event."""
    match event:
        case RouteEpochBegun():
            return replace(state, current=event.epoch, fenced=event.fenced)
        case RouteEpochCommitted():
            return replace(state, committed=event.epoch)
    return state
