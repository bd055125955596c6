"""Cards of clusters on the Overview page, those with problems first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.domain.base.known import total
from backend.domain.overview.problems import gist
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.overview.estate_state import EstateState
from backend.web.history.sparkline import Sparkline

COMPACT_FROM = 13
"""Number of clusters from which cards are compact."""


@dataclass(frozen=True)
class ClusterCard:
    """A cluster, as its card shows it; None: not known."""

    row: ClusterRow
    is_primary: bool
    is_leaf: bool
    inbound_lag: int | None
    """Records that wait to be copied to it."""
    inbound: int
    """Number of distributors that copy to it."""
    late: int
    """Number of those that are late."""
    active_tenants: int
    under_replicated: int | None
    trend: Sparkline | None

    @property
    def reason(self) -> str | None:
        """Return why it is offline, in brief."""
        return gist(self.row.reason) if self.row.state == "offline" and self.row.reason else None

    @property
    def is_troubled(self) -> bool:
        """Return whether the card comes first."""
        return self.row.state == "offline" or bool(self.under_replicated) or bool(self.late)


def cluster_cards(state: EstateState, trends: Mapping[str, Sparkline | None]) -> Sequence[ClusterCard]:
    """Return all cards: offline clusters, other troubled ones, then all others by number."""
    lags: dict[str, list[int | None]] = defaultdict(list)
    late: dict[str, int] = defaultdict(int)
    for row in state.distributors:
        seen = row.observed
        lags[row.target].append(None if seen is None else seen.lag_records)
        late[row.target] += seen is not None and seen.in_time is False
    leaves = {row.cluster for row in state.distributors}
    primary = state.tree.primary_cluster if state.tree else None
    cards = [
        ClusterCard(
            row=row,
            is_primary=row.name == primary,
            is_leaf=row.name in leaves,
            inbound_lag=total(lags[row.name]) if lags[row.name] else None,
            inbound=len(lags[row.name]),
            late=late[row.name],
            active_tenants=state.active_tenants.get(row.name, 0),
            under_replicated=state.under_replicated.get(row.name),
            trend=trends.get(row.name),
        )
        for row in state.clusters
    ]
    return sorted(cards, key=lambda each: (each.row.state != "offline", not each.is_troubled))
