"""The drawer of the Tree page: one cluster, one distributor, or the distributors between two parts of the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from sqlalchemy import Connection

from backend.domain.distribution.distributor_states import UNOBSERVED
from backend.domain.tree.tree_edit import Step, walk
from backend.domain.tree.tree_shape import Inner, Node, leaves
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.switch.active_clusters import list_active
from backend.queries.tree.trees import TreeRow
from backend.settings import settings
from backend.web.history.measure_charts import charts_address, read_sparklines
from backend.web.history.sparkline import Sparkline
from backend.web.tree.distributor import Distributor
from backend.web.tree.tree_edit_state import EditState
from backend.web.tree.tree_outline import COLLAPSED, ROOT
from backend.web.tree.tree_trends import NO_TRENDS, Trends, read_trends
from backend.web.tree.tree_view import TreeState
from backend.web.tree.tree_wish import TreeWish
from backend.web.words.figures import counted, shortened

BYTES_IN = "cluster.bytes_in_per_second"
MOST_PLACES = 8
_MEANINGS = {
    "starting": "Starting: it waits for a worker, or determines its position.",
    "pausing": "Pausing: some of its sessions may still copy.",
    "paused": "Paused by a user: records wait until it is resumed.",
    "stopped": "Stopped: it is not meant to run.",
}


@dataclass(frozen=True)
class ClusterInside:
    """A cluster with its distributors."""

    row: ClusterRow
    is_primary: bool
    reading: tuple[Distributor, ...]
    writing: tuple[Distributor, ...]
    places: tuple[str, ...]
    """Environments for which it is active, the first of them."""
    more_places: int
    unreplicated_records: int | None
    bytes_in: Sparkline | None

    @property
    def bytes_chart(self) -> str:
        """Return the address of its chart."""
        return charts_address(BYTES_IN, self.row.name)


@dataclass(frozen=True)
class Drawer:
    """Content of the drawer. One of `cluster` and `distributors` is there; neither if nothing has this name."""

    wish: TreeWish
    title: str
    sentence: str
    cluster: ClusterInside | None = None
    distributors: tuple[Distributor, ...] = ()
    trends: Trends = NO_TRENDS
    changes: tuple[tuple[str, str], ...] = ()
    """Label and address of each form that changes it."""
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def live_address(self) -> str:
        """Return the address of its newest content."""
        return self.wish.address("/tree/-drawer")

    @property
    def closed(self) -> str:
        """Return the address of the page without it."""
        return self.wish.opening("").address()

    @property
    def single(self) -> Distributor | None:
        """Return the distributor, if it shows one."""
        return self.distributors[0] if len(self.distributors) == 1 else None

    @property
    def objective(self) -> str:
        """Return the longest time that records may wait."""
        return f"{settings().distributor_objective_seconds:g} s"

    def opening(self, key: str) -> str:
        """Return the address at which it shows something else."""
        return self.wish.opening(key).address()


def read_drawer(connection: Connection, wish: TreeWish, state: TreeState, at: int | None) -> Drawer | None:
    """Return what a wish opens of a state, now or at a position; None if it opens nothing."""
    if not wish.opened:
        return None
    tree, clusters = state.tree, state.clusters
    found = [Distributor(row) for row in state.reported]
    row = next((each for each in clusters if each.name == wish.opened), None)
    if row is not None:
        is_primary = tree is not None and tree.primary_cluster == row.name
        edits = _edits(tree, row.name, [each.name for each in clusters])
        return _of_cluster(wish, _inside(connection, row, is_primary, found, state, at), edits)
    shape = None if tree is None else tree.shape
    members = tuple(each for each in found if each.key == wish.opened) or _between(shape, wish.opened, found)
    if members:
        keys = [each.key for each in members]
        return _of_edge(wish, members, NO_TRENDS if at is not None else read_trends(connection, keys))
    sentence = "The tree has no such cluster or distributor. Close this, and choose another one in the drawing."
    return Drawer(wish, wish.opened[:60], sentence)


def _between(shape: Node | None, key: str, found: Sequence[Distributor]) -> tuple[Distributor, ...]:
    """Return the distributors of an edge that starts at a collapsed subtree."""
    source, _, rest = key.partition(":")
    level, _, target = rest.partition(":")
    if shape is None or not source.startswith(COLLAPSED):
        return ()
    starts, ends = _clusters_at(shape, source), _clusters_at(shape, target)
    return tuple(
        each
        for each in found
        if each.row.cluster in starts and each.row.target in ends and str(each.row.level) == level
    )


def _clusters_at(root: Node, key: str) -> frozenset[str]:
    """Return the clusters of an end; none if the tree has no such end."""
    if not key.startswith(COLLAPSED):
        return frozenset({key})
    node: Node = root
    for side in key.removeprefix(COLLAPSED + ROOT):
        if not isinstance(node, Inner) or side not in "01":
            return frozenset()
        node = node.right if side == "1" else node.left
    return frozenset(leaves(node))


def _inside(
    connection: Connection,
    row: ClusterRow,
    is_primary: bool,
    found: Sequence[Distributor],
    state: TreeState,
    at: int | None,
) -> ClusterInside:
    active = {"/".join(each.place) for each in list_active(connection, at) if each.cluster == row.name}
    places = sorted(active)
    return ClusterInside(
        row=row,
        is_primary=is_primary,
        reading=tuple(each for each in found if each.row.cluster == row.name),
        writing=tuple(each for each in found if each.row.target == row.name),
        places=tuple(places[:MOST_PLACES]),
        more_places=max(0, len(places) - MOST_PLACES),
        unreplicated_records=state.at_risk.get(row.name),
        bytes_in=None if at is not None else read_sparklines(connection, BYTES_IN, [row.name])[row.name],
    )


def _edits(tree: TreeRow | None, cluster: str, clusters: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return label and address of each edit of the tree that begins at this cluster; none if it is no leaf.

    The editor opens with the step done; which of several clusters joins is chosen there.
    """
    nodes = [] if tree is None else list(walk(tree.root))
    place = next((where for where, node in nodes if node.get("cluster") == cluster), None)
    if tree is None or place is None:
        return ()
    opened = EditState(tree.position, node=place)
    found = [] if place == ROOT else [("Remove from tree", opened.stepping(Step("remove", place)).address)]
    inside = {node.get("cluster") for _, node in nodes}
    unused = [name for name in clusters if name not in inside]
    if len(unused) == 1:
        label = f"Add {shortened(unused[0], 30)} beside it"
        found.append((label, opened.stepping(Step("add", place, unused[0])).address))
    elif unused:
        found.append(("Add cluster beside it", opened.address))
    return tuple(found)


def _of_cluster(wish: TreeWish, inside: ClusterInside, edits: tuple[tuple[str, str], ...]) -> Drawer:
    row, name = inside.row, quote(inside.row.name, safe="")
    touching = (*inside.reading, *inside.writing)
    wrong = sum(each.is_problem for each in touching)
    if row.state == "offline":
        sentence = f"Offline: {row.reason or 'it does not answer'}."
    elif wrong:
        sentence = f"{row.state.capitalize()}, but {wrong} of its {len(touching)} distributors have a problem."
    else:
        sentence = f"{row.state.capitalize()}, without problems."
    is_leaf = bool(inside.reading)
    return Drawer(
        wish,
        row.name,
        sentence,
        cluster=inside,
        changes=((("Plan switch", f"/switches/plan?from={name}"),) if is_leaf else ()) + edits,
        links={
            "Cluster page": f"/clusters/{name}",
            "Consumer groups": f"/groups?cluster={name}",
            "Replication": f"/clusters/{name}/replication",
            "Timeline": f"/timeline?of=cluster-{name}",
        },
    )


def _of_edge(wish: TreeWish, members: tuple[Distributor, ...], trends: Trends) -> Drawer:
    if len(members) > 1:
        level, wrong = members[0].row.level, sum(each.is_problem for each in members)
        said = f"{counted(wrong, 'distributor')} with a problem." if wrong else "None of them has a problem."
        title = f"{counted(len(members), 'distributor')} of level {level}"
        return Drawer(wish, title, said, distributors=members, trends=trends)
    (only,) = members
    return Drawer(
        wish,
        only.key,
        _sentence(only),
        distributors=members,
        trends=trends,
        changes=(
            ("Change target", f"/tree/-target/{only.address}"),
            ("Change settings", f"/tree/-settings/{only.address}"),
        ),
        links={"Rate chart": only.rate_chart, "Lag chart": only.lag_chart, "Losses and dead letters": "/losses"},
    )


def _sentence(each: Distributor) -> str:
    """Return state and reason in one sentence."""
    objective = f"{settings().distributor_objective_seconds:g} s"
    ends = f"from {each.row.cluster} to {each.row.target}"
    if each.state == UNOBSERVED:
        return f"Copies records {ends}."
    if each.reason:
        late = f" Records wait longer than {objective}." if each.is_late else ""
        return f"{each.state.capitalize()}: {each.reason.rstrip('.')}.{late}"
    if each.state != "running":
        return _MEANINGS.get(each.state, f"{each.state.capitalize()}.")
    if each.is_late:
        return f"Running, but late: records wait longer than {objective}."
    if each.row.observed is None or each.row.observed.in_time is None:
        return f"Running: copies records {ends}; how long they wait is not known."
    return f"Running: copies records {ends} within {objective}."
