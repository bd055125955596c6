"""Names of switches, placements and operations, for their pages, lists, breadcrumbs and the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.queries.base.names_of_events import ARROW, PlacementNamed, SwitchNamed


def switch_number(named: SwitchNamed | None, switch: str) -> str:
    """Return the short name of a switch, such as `Switch 12`; its id if it is not known."""
    return f"Switch {switch}" if named is None else named.short


def switch_name(named: SwitchNamed | None, switch: str) -> str:
    """Return the name of a switch, such as `Switch 12 · cluster-1 → cluster-2`."""
    return switch_number(None, switch) if named is None else named.full


def placement_number(named: PlacementNamed | None, placement: str) -> str:
    """Return the short name of a placement, such as `Placement 3`; its id if it is not known."""
    return f"Placement {placement}" if named is None else named.short


def placement_name(named: PlacementNamed | None, placement: str) -> str:
    """Return the name of a placement, such as `Placement 3 · cluster-2`."""
    return placement_number(None, placement) if named is None else named.full


def operation_name(event: str, data: Mapping[str, Any], otherwise: str) -> str:
    """Return the name of the operation that an event began, such as `Change of target: c1 level 2 → c3`."""
    match event, data:
        case "DistributorTargetSwitched", {"cluster": cluster, "level": level, "target": target}:
            return f"Change of target: {cluster} level {level} {ARROW} {target}"
        case "PrimaryMoveBegun", {"cluster": cluster, "previous": previous}:
            return f"Move of the primary: {previous} {ARROW} {cluster}"
        case "AdoptionBegun", {"cluster": cluster}:
            return f"Adoption of topics: {cluster}"
    return otherwise
