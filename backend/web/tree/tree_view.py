"""Content of the Tree page, read in one snapshot: clusters, tree, distributors and the newest events.

`TreeState` holds the rows as they were read; equal states look the same, so nothing is drawn again for them.
`Picture` adds what only drawing needs: places, words, sums. A state has one, whatever is drawn of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlalchemy import Connection

from backend.domain.distribution.distributor_states import UNOBSERVED
from backend.domain.overview.problems import gist
from backend.domain.tree import tree_shape
from backend.queries.base import events as event_queries
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.distributors import DistributorRow, distributors_of
from backend.queries.switch.active_clusters import list_active
from backend.queries.topics.at_risk import records_at_risk
from backend.queries.tree.trees import TreeRow, get_tree
from backend.settings import settings
from backend.web.frame.timeline_view import TimelineItem, timeline_items
from backend.web.tree.distributor import IN_TIME, TROUBLED, Distributor
from backend.web.tree.tree_layout import Arrow, Diagram, layout
from backend.web.words.figures import counted, wrapped

EVENTS_SHOWN = 40
# Room of a card for the reason why its cluster is offline; the notices have the full reason.
REASON_COLUMNS = 25
REASON_LINES = 2
_FOLLOWS = "Records for it wait on the other clusters and follow once it is back."


@dataclass(frozen=True)
class TreeState:
    """Rows of one moment. `position` is the log's head, or the requested position; `head` is always the head."""

    position: int
    head: int
    tree: TreeRow | None
    clusters: tuple[ClusterRow, ...]
    distributors: tuple[DistributorRow, ...]
    events: tuple[TimelineItem, ...]
    active: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> number of environments whose clients are routed there."""
    at_risk: Mapping[str, int | None] = field(default_factory=dict)
    """Cluster -> unreplicated records, at most; None if unknown. Empty for an earlier position."""
    reported: tuple[DistributorRow, ...] = field(default=(), compare=False)
    """The distributors with counters and waits, which only the drawer shows: they differ in each read."""

    @cached_property
    def picture(self) -> Picture:
        """Return the picture, which all views of this state share."""
        return Picture(self)


def read(connection: Connection, at: int | None = None) -> TreeState:
    """Read the state now, or at an existing position."""
    head = event_queries.head(connection).position
    position = head if at is None else at
    tree, clusters = get_tree(connection, at), tuple(list_clusters(connection, at))
    reported = _reported(connection, tree, clusters, at)
    return TreeState(
        position=position,
        head=head,
        tree=tree,
        clusters=clusters,
        distributors=tuple(map(_as_shown, reported)),
        events=tuple(timeline_items(connection, event_queries.newest_events(connection, position, EVENTS_SHOWN))),
        active=_active(connection, at),
        at_risk={} if at is not None else records_at_risk(connection),
        reported=reported,
    )


def read_again(connection: Connection, before: TreeState) -> TreeState:
    """Read the state now; what only events change is read only if there are new ones."""
    if event_queries.head(connection).position != before.head:
        return read(connection)
    reported = _reported(connection, before.tree, before.clusters, None)
    shown = tuple(map(_as_shown, reported))
    return replace(before, distributors=shown, at_risk=records_at_risk(connection), reported=reported)


def _active(connection: Connection, at: int | None) -> Mapping[str, int]:
    places = {(row.cluster, row.place) for row in list_active(connection, at)}
    return Counter(cluster for cluster, _ in places if cluster is not None)


def _reported(
    connection: Connection, tree: TreeRow | None, clusters: Iterable[ClusterRow], at: int | None
) -> tuple[DistributorRow, ...]:
    return () if tree is None else tuple(distributors_of(connection, tree, clusters, at))


def _as_shown(row: DistributorRow) -> DistributorRow:
    # Counters and waits are not shown, but would make every state of a busy system a new one.
    if row.observed is None:
        return row
    shown = replace(row.observed, copied_records=0, copied_bytes=0, position=0, wait_seconds=None)
    return replace(row, observed=shown)


@dataclass(frozen=True)
class Leaf:
    """A cluster as its card shows it."""

    name: str
    zone: str | None
    state: str
    primary: bool
    reason: str | None
    reason_lines: tuple[str, ...]
    active: int
    """Number of environments whose clients are routed there."""
    unreplicated_records: int | None
    """Unreplicated records, which would be lost with the cluster."""

    @property
    def marks(self) -> str:
        """Return both numbers in words."""
        said = [f"{counted(self.active, 'environment')} active here"] if self.active else []
        said += (
            [f"{counted(self.unreplicated_records, 'unreplicated record')}"] if self.unreplicated_records else []
        )
        return ", ".join(said)


@dataclass(frozen=True)
class Notice:
    """A notice; `kind` is bad, or note. `lines` are the details, one each."""

    kind: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A state, ready to be drawn."""

    state: TreeState

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """Return every cluster by name; those of the tree first, in its order."""
        rows = {row.name: row for row in self.state.clusters}
        tree = self.state.tree
        order = [*(tree_shape.leaves(tree.shape) if tree else ()), *rows]
        primary = tree.primary_cluster if tree else None
        return {name: _leaf(rows[name], name == primary, self.state) for name in order if name in rows}

    @cached_property
    def distributors(self) -> dict[str, Distributor]:
        away = {row.name for row in self.state.clusters if row.state == "offline"}
        rows = self.state.distributors
        found = (Distributor(row, tuple(end for end in (row.cluster, row.target) if end in away)) for row in rows)
        return {each.key: each for each in found}

    @cached_property
    def problems(self) -> Mapping[str, int]:
        """Return the number of problems by cluster, for clusters that have any.

        That a cluster is offline is one, and not one more for each distributor that waits for it.
        """
        found = Counter(leaf.name for leaf in self.leaves.values() if leaf.state == "offline")
        away = frozenset(found)
        own = (each for each in self.distributors.values() if each.is_problem)
        found.update(each.row.cluster for each in own if not away & {each.row.cluster, each.row.target})
        return found

    @cached_property
    def diagram(self) -> Diagram | None:
        tree = self.state.tree
        if tree is None:
            return None
        lines = max((len(leaf.reason_lines) for leaf in self.leaves.values()), default=0)
        return layout(tree.shape, tree.targets, lines + self.has_marks)

    @property
    def has_marks(self) -> bool:
        """Return whether cards have a line for active environments: always if there are any, so nothing jumps."""
        return bool(self.state.active)

    @cached_property
    def arrows(self) -> list[tuple[Arrow, Distributor]]:
        """Return the arrows in the order of the table, which is also the keyboard's."""
        arrows = {arrow.key: arrow for arrow in self.diagram.arrows} if self.diagram else {}
        return [(arrows[key], each) for key, each in self.distributors.items() if key in arrows]

    @property
    def timeline(self) -> tuple[TimelineItem, ...]:
        return self.state.events

    @property
    def online(self) -> int:
        return sum(row.state != "offline" for row in self.state.clusters)

    @property
    def running(self) -> int:
        return sum(each.state == "running" for each in self.distributors.values())

    @property
    def in_time(self) -> int:
        return sum(each.in_time == IN_TIME[True] for each in self.distributors.values())

    @property
    def late(self) -> int:
        return sum(each.is_late for each in self.distributors.values())

    @property
    def objective(self) -> str:
        """Return the longest time that records may wait at a distributor."""
        return f"{settings().distributor_objective_seconds:g} s"

    @property
    def records_per_second(self) -> float | None:
        return sum_of_known(each.rate for each in self.distributors.values())

    @property
    def lag_records(self) -> float | None:
        return sum_of_known(each.lag for each in self.distributors.values())

    @cached_property
    def notices(self) -> list[Notice]:
        """Return notices: offline clusters, then distributors with other problems, then late running ones."""
        offline = [leaf for leaf in self.leaves.values() if leaf.state == "offline"]
        found = []
        if offline:
            names = offline[0].name if len(offline) == 1 else counted(len(offline), "cluster")
            reasons = (f"{leaf.name}: {leaf.reason or 'it does not answer'}" for leaf in offline)
            title = f"{names} {'is' if len(offline) == 1 else 'are'} offline"
            found.append(Notice("bad", title, (*reasons, _FOLLOWS)))
        away = {leaf.name for leaf in offline}
        groups: dict[tuple[str, str], list[Distributor]] = {}
        for each in self.distributors.values():
            if each.state not in ("running", UNOBSERVED) and not away & {each.row.cluster, each.row.target}:
                groups.setdefault((each.state, each.reason or ""), []).append(each)
        for (state, reason), members in groups.items():
            names = ", ".join(each.key for each in members)
            title = f"{counted(len(members), 'distributor')} {state}: {names}"
            found.append(Notice("bad" if state in TROUBLED else "note", title, (reason,) if reason else ()))
        late = [each.key for each in self.distributors.values() if each.is_late and each.state == "running"]
        if late:
            title = f"{counted(len(late), 'distributor')} late: {', '.join(late)}"
            found.append(Notice("bad", title, (f"Records wait longer than {self.objective}.",)))
        return found


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known: Sequence[float] = [value for value in values if value is not None]
    return sum(known) if known else None


def _leaf(row: ClusterRow, primary: bool, state: TreeState) -> Leaf:
    reason = row.reason if row.state == "offline" else None
    return Leaf(
        name=row.name,
        zone=row.zone,
        state=row.state,
        primary=primary,
        reason=reason,
        reason_lines=wrapped(gist(reason), REASON_COLUMNS, REASON_LINES) if reason else (),
        active=state.active.get(row.name, 0),
        unreplicated_records=state.at_risk.get(row.name),
    )
