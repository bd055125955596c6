"""Event stream `route-epochs`: what may be in the zone router's channel, and what may go from it.

    begun --(fence_lag epochs later)--> fenced --(every main has it in blocks)--> committed

Proxies write under the newest epoch; mains refuse what comes under a fenced one, so that what was told of under
it is complete; of a committed one all is in block objects, and proxies delete it from the channel. All three only
ever rise. Nodes tell how far they are by reports, which are observations and no events.
Source: the zone router's document, "RouterChannel Cleanup", where the fence is one epoch behind: that refuses what
is on its way at every tick.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from backend.domain.base.errors import FieldError
from backend.domain.base.event import Event
from backend.domain.base.limits import refuse

EVENT_STREAM = "route-epochs"
SILENT_SECONDS = 30.0
"""A node that has not reported for so long is dead."""
GAP_SECONDS = 10.0
"""Reports that come within so long are unbroken: nodes report every two seconds."""


@dataclass(frozen=True, kw_only=True)
class NodeHeard:
    """One node's last report, as far as epochs depend on it."""

    node: str
    is_main: bool
    reported_epoch: int | None
    """All that came to this main under epochs up to it is in block objects; None: it cannot tell."""
    open_streams: int
    silent_seconds: float
    """Since its last report."""
    unbroken_seconds: float
    """Between the first and the last report of those without a gap."""


def dead_nodes(nodes: Collection[NodeHeard]) -> frozenset[str]:
    """Nodes that are silent although they could have been heard.

    Where nobody was heard for a while, it was the control plane that was away: a node has SILENT_SECONDS from when
    the first one was heard again. Else all but the first to report would be dead for a moment, and what stands
    under the epochs that they hold back would go. While nobody is heard at all, all that are silent are dead.
    """
    silent = frozenset(each.node for each in nodes if each.silent_seconds >= SILENT_SECONDS)
    heard = [each for each in nodes if each.silent_seconds < GAP_SECONDS]
    listening = max((each.unbroken_seconds + each.silent_seconds for each in heard), default=SILENT_SECONDS)
    return silent if listening >= SILENT_SECONDS else frozenset()


def holding_back(nodes: Collection[NodeHeard]) -> list[NodeHeard]:
    """Mains that committed waits for, the one that is least far first.

    A main that is dead and had no open stream is none of them; one that had some is, until it comes back: what it
    took may be in the channel alone. Nobody tells that no epoch of a main that cannot tell is in blocks.
    """
    dead = dead_nodes(nodes)
    counted = [each for each in nodes if each.is_main and (each.node not in dead or each.open_streams > 0)]
    return sorted(counted, key=lambda each: (_epoch_of(each), each.node))


def _epoch_of(node: NodeHeard) -> int:
    return node.reported_epoch or 0


# --- events


@dataclass(frozen=True, kw_only=True)
class RouteEpochBegun(Event, name="RouteEpochBegun", version=1):
    """Proxies write under a new epoch from now on, and mains refuse older ones."""

    epoch: int
    """One more than the one before."""
    fenced: int
    """Mains refuse what comes under this one or a lower one; 0 at first."""


@dataclass(frozen=True, kw_only=True)
class RouteEpochCommitted(Event, name="RouteEpochCommitted", version=1):
    """What came under this epoch and lower ones is in block objects, and goes from the channel."""

    epoch: int


# --- commands


@dataclass(frozen=True, kw_only=True)
class BeginEpoch:
    """The next epoch; and as much is committed as nodes allow."""

    fence_lag: int
    """The fence is so many epochs behind."""
    nodes: Collection[NodeHeard]


# --- state


@dataclass(frozen=True, kw_only=True)
class RouteEpochs:
    """Where they are; all 0 before the first."""

    current: int = 0
    fenced: int = 0
    committed: int = 0


INITIAL = RouteEpochs()


def decide(state: RouteEpochs, command: BeginEpoch) -> list[Event]:
    """Raises ValueInvalid for a fence that would refuse what is written now."""
    if command.fence_lag < 1:
        refuse([FieldError("/fence_lag", f"is to be 1 or more, and is {command.fence_lag}")])
    begun = RouteEpochBegun(
        epoch=state.current + 1, fenced=max(state.fenced, state.current + 1 - command.fence_lag)
    )
    after = evolve(state, begun)
    reached = _reached(after, command.nodes)
    return [begun, RouteEpochCommitted(epoch=reached)] if reached > state.committed else [begun]


def _reached(state: RouteEpochs, nodes: Collection[NodeHeard]) -> int:
    """The epoch up to which all is in blocks; as it is, where no main says anything."""
    mains = holding_back(nodes)
    if not mains or all(each.silent_seconds >= SILENT_SECONDS for each in nodes):
        return state.committed
    # What a main says of epochs that are not fenced is not the last word: more may come under them.
    return max(state.committed, min(_epoch_of(mains[0]), state.fenced))


def evolve(state: RouteEpochs, event: Event) -> RouteEpochs:
    """The state after an event."""
    match event:
        case RouteEpochBegun():
            return replace(state, current=event.epoch, fenced=event.fenced)
        case RouteEpochCommitted():
            return replace(state, committed=event.epoch)
    return state
