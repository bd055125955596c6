"""Scope of a switch for its runner: environments, and the streams in them whose records are drained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from backend.domain.base.errors import StateConflict
from backend.domain.switch.cluster_switch import ALL_LEAVES
from backend.domain.switch.switch_facts import Place
from backend.domain.tree import routes, tree_shape
from backend.domain.tree.routes import Targets
from backend.domain.tree.tree_shape import Node
from backend.queries.clusters.clusters import list_clusters
from backend.queries.switch.switches import SwitchRow
from backend.queries.tenants.streams import list_streams
from backend.queries.tree.trees import get_tree


def _flags(root: Node, targets: Targets, switch: SwitchRow) -> int:
    """Return the copy flags of records from source to target; 0 once the source has left the tree."""
    if switch.source not in tree_shape.leaves(root):
        return 0
    return routes.arrival_flags(root, targets, switch.source).get(switch.target, 0)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Scope at one moment."""

    environments: tuple[Place, ...]
    streams: tuple[str, ...]
    """Distributed streams; others have nothing to wait for."""
    online_leaves: tuple[str, ...]
    """Online leaves without the source."""
    source_is_online: bool
    flags: int
    """Copy flags that records of the source carry on the target; offsets are set with the same flags."""

    def wanted(self, switch: SwitchRow) -> Scope:
        """Return the scope without leaves that the switch does not wait for.

        If one of those goes offline during the hold, clients need not be reopened.
        """
        return self if switch.drain == ALL_LEAVES else replace(self, online_leaves=())

    @staticmethod
    def read(connection: Connection, switch: SwitchRow) -> Scope:
        """Read the present scope of a switch."""
        places = {moving.place for moving in switch.moves}
        streams = [
            row.stream
            for row in list_streams(connection)
            if row.distributed and (row.tenant, row.instance, row.environment) in places
        ]
        tree = get_tree(connection)
        if tree is None:
            raise StateConflict("the tree does not exist any more")
        root = tree.shape
        online = {row.name for row in list_clusters(connection) if row.state != "offline"}
        return Scope(
            environments=tuple(sorted(places)),
            streams=tuple(streams),
            online_leaves=tuple(
                name for name in tree_shape.leaves(root) if name in online and name != switch.source
            ),
            source_is_online=switch.source in online,
            flags=_flags(root, tree.targets, switch),
        )
