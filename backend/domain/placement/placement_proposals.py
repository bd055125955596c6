"""Placements that nobody asked for: events and commands of the stream `placement-<id>` of one that a worker has
asked for since brokers came or went.

    (none) --RequestPlacement with a proposal--> requested .. planned --StartApplying | HoldBack--> ...
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Why a worker asks for a placement."""

    policy: str
    """Of the cluster at that time: `propose` or `apply`."""
    joined: tuple[int, ...]
    """Brokers that have come, and hold nothing yet."""
    left: tuple[int, ...]
    """Brokers that are away, and whose replicas are missing."""


@dataclass(frozen=True, kw_only=True)
class PlacementProposed(Event, name="PlacementProposed", version=1):
    """It was asked for by a worker, since brokers came or went."""

    placement: str
    cluster: str
    policy: str
    joined: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PlacementHeldBack(Event, name="PlacementHeldBack", version=1):
    """By the cluster's policy it would be applied, and is not: an operator is to look at it first."""

    placement: str
    cluster: str
    reason: str


PlacementProposalEvent = PlacementProposed | PlacementHeldBack


@dataclass(frozen=True, kw_only=True)
class HoldBack:
    """Leave it to an operator."""

    reason: str
