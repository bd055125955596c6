"""Applications as pages show them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from backend.domain.tenants.application import GrantState
from backend.queries.tenants.applications import ApplicationRow, ClusterApplied, due_acls
from backend.web.words.figures import counted

_REMOVING = "removing"
_GLYPHS = {"applied": "running", "pending": "starting", _REMOVING: "starting", "failed": "blocked"}


@dataclass(frozen=True)
class OnCluster:
    """Access that a cluster has of an application."""

    cluster: str
    groups: tuple[str, ...]
    due: tuple[str, ...]
    applied: ClusterApplied

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.applied.state]

    @property
    def reasons(self) -> list[str]:
        """Return the reasons why the cluster has less than all of it."""
        parts = [f"{part}: {what}" for part, what in self.applied.parts.items() if what != "applied"]
        return [*([self.applied.failure] if self.applied.failure else []), *parts]


@dataclass(frozen=True)
class ApplicationView:
    """An application and its applied state."""

    row: ApplicationRow
    clusters: tuple[OnCluster, ...]
    leaving: tuple[OnCluster, ...] = ()
    """Clusters that have left the tree and may still have access of the application."""

    @property
    def state(self) -> str:
        """Return the worst state of its clusters."""
        states = {each.applied.state for each in self.clusters}
        return next((state for state in ("failed", "pending") if state in states), "applied")

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.state]

    @property
    def settled(self) -> bool:
        """Tell whether no change on a cluster is pending."""
        return not self.leaving and all(each.applied.state == "applied" for each in self.clusters)

    @property
    def sentence(self) -> str:
        """Return the progress in one line."""
        done = sum(each.applied.state == "applied" for each in self.clusters)
        return f"Applied on {done} of {counted(len(self.clusters), 'cluster')}"

    @property
    def access(self) -> str:
        """Return the numbers of its streams by the state of their grants."""
        states = Counter(str(each.state) for each in self.row.grants)
        said = [f"{states[state]} {state}" for state in map(str, GrantState) if states[state]]
        return ", ".join(said) or "no streams"


def application_view(row: ApplicationRow) -> ApplicationView:
    """Build the view for the clusters of the application's tree."""
    clusters = (
        OnCluster(cluster, groups, tuple(due_acls(row, cluster)), row.applied[cluster])
        for cluster, groups in row.technical_groups.items()
    )
    return ApplicationView(row, tuple(clusters), tuple(_leaving(*each) for each in row.leaving.items()))


def _leaving(cluster: str, recorded: ClusterApplied) -> OnCluster:
    state = _REMOVING if recorded.failure is None else recorded.state
    return OnCluster(cluster, (), (), replace(recorded, state=state, parts={}))
