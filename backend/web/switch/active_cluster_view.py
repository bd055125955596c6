"""Active clusters by environment, and the switches that are about to move them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.domain.switch.switch_facts import Place
from backend.queries.switch.active_clusters import ActiveRow
from backend.queries.switch.switches import SwitchRow


@dataclass(frozen=True)
class ActiveClusterView:
    """Active cluster of an environment: its row for all zones, and those of zones that have their own."""

    place: Place
    rows: tuple[ActiveRow, ...]
    moving: SwitchRow | None
    """Switch that is about to move some of its clients."""

    @property
    def name(self) -> str:
        return "/".join(self.place)

    @property
    def generation(self) -> int:
        """Return the newest generation of its zones."""
        return max(row.generation for row in self.rows)


def active_cluster_views(rows: Iterable[ActiveRow], moving: Iterable[SwitchRow]) -> list[ActiveClusterView]:
    """Return the active clusters by environment, in their order."""
    by_place: dict[Place, list[ActiveRow]] = {}
    for row in rows:
        by_place.setdefault(row.place, []).append(row)
    under_way = {each.place: switch for switch in moving for each in switch.moves}
    return [ActiveClusterView(place, tuple(found), under_way.get(place)) for place, found in by_place.items()]
