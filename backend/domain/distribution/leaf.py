"""Event stream `leaf-<cluster>`: the version of the tree's routes that a leaf has entered.

The tree's events say what the routes into a leaf should be; this stream says that the leaf's barrier for that
version was passed: every transactional id that may have copied to it before is fenced (`leaf_routes.py`).

    entered v1 --EnterRoutes(v2)--> entered v2

A change of the number of buckets passes the same barrier, since tasks then copy under other transactional ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

# --- events


@dataclass(frozen=True, kw_only=True)
class LeafEnteredRoutes(Event, name="LeafEnteredRoutes", version=2):
    """Only distributors of this version of the routes can copy to the leaf from now on."""

    cluster: str
    routes: int
    """Version: position of the event that last changed the routes into the leaf."""
    fenced: int
    """Number of transactional ids that were fenced."""
    buckets: int
    """Number of tasks of each distributor; 0 if it was not recorded yet."""


# --- commands


@dataclass(frozen=True, kw_only=True)
class EnterRoutes:
    """Record that the barrier for `routes` was passed; `wanted` is the version that the tree requires now."""

    cluster: str
    routes: int
    wanted: int
    fenced: int
    buckets: int


# --- state


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """Version of the inbound routes that a leaf has entered, and its number of buckets; 0 before the first."""

    entered: int = 0
    buckets: int = 0


INITIAL = Leaf()

# --- decide


def decide(state: Leaf, command: EnterRoutes) -> list[LeafEnteredRoutes]:
    """Return the event of the entry; none if the tree requires a later version by now: its barrier starts over."""
    if command.routes != command.wanted or state == Leaf(entered=command.routes, buckets=command.buckets):
        return []
    return [
        LeafEnteredRoutes(
            cluster=command.cluster, routes=command.routes, fenced=command.fenced, buckets=command.buckets
        )
    ]


# --- evolve


def evolve(state: Leaf, event: Event) -> Leaf:
    """Return the state after an event; events of other versions of this program never raise."""
    return Leaf(entered=event.routes, buckets=event.buckets) if isinstance(event, LeafEnteredRoutes) else state
