"""Placements proposed by a worker because brokers joined or left.

Their events and commands belong to the stream `placement-<id>`:

    (none) --RequestPlacement with a proposal--> requested .. planned --StartApplying | HoldBack--> ...
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The reason for which a worker requests a placement."""

    policy: str
    """Policy of the cluster at that time: `propose` or `apply`."""
    joined: tuple[int, ...]
    """Brokers that have joined and hold nothing yet."""
    left: tuple[int, ...]
    """Brokers that have left and whose replicas are missing."""


@dataclass(frozen=True, kw_only=True)
class PlacementProposed(Event, name="PlacementProposed", version=1):
    """A worker requested the placement because brokers joined or left."""

    placement: str
    cluster: str
    policy: str
    joined: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PlacementHeldBack(Event, name="PlacementHeldBack", version=1):
    """The placement needs an operator's review, although the cluster's policy is to apply it."""

    placement: str
    cluster: str
    reason: str


PlacementProposalEvent = PlacementProposed | PlacementHeldBack


@dataclass(frozen=True, kw_only=True)
class HoldBack:
    """Leave the plan to an operator."""

    reason: str
