"""Event stream `leaf-<cluster>`: which version of the tree's routes a leaf has entered.

The tree's events say what the routes into a leaf should be; this stream says that the leaf's barrier for that
version was passed: every transactional id that may have copied to it before is fenced (`leaf_routes.py`).

    entered v1 --EnterRoutes(v2)--> entered v2

The same barrier serves another number of buckets, since units then copy under other transactional ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

# --- events


@dataclass(frozen=True, kw_only=True)
class LeafEnteredRoutes(Event, name="LeafEnteredRoutes", version=2):
    """Distributors of this version of the routes may copy to the leaf from now on, and no others can."""

    cluster: str
    routes: int
    """Version: position of the event that last changed the routes into the leaf."""
    fenced: int
    """Transactional ids that were fenced."""
    buckets: int
    """Units that each distributor is cut into; 0 if that was not recorded yet."""


# --- commands


@dataclass(frozen=True, kw_only=True)
class EnterRoutes:
    """Record that the barrier for `routes` was passed. `wanted` is the version that the tree asks for now."""

    cluster: str
    routes: int
    wanted: int
    fenced: int
    buckets: int


# --- state


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """The version of the routes into a leaf that it has entered, and with how many buckets; 0 before the first."""

    entered: int = 0
    buckets: int = 0


INITIAL = Leaf()

# --- decide


def decide(state: Leaf, command: EnterRoutes) -> list[LeafEnteredRoutes]:
    """The leaf has entered, unless the tree asks for a later version by now: then its barrier begins again."""
    if command.routes != command.wanted or state == Leaf(entered=command.routes, buckets=command.buckets):
        return []
    return [
        LeafEnteredRoutes(
            cluster=command.cluster, routes=command.routes, fenced=command.fenced, buckets=command.buckets
        )
    ]


# --- evolve


def evolve(state: Leaf, event: Event) -> Leaf:
    """The state after an event; events of other versions of this program never make it fail."""
    return Leaf(entered=event.routes, buckets=event.buckets) if isinstance(event, LeafEnteredRoutes) else state
