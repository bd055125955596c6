"""Changes of switches: starting one as its plan says, taking it back before the move."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from backend.deciders import SWITCH, TREE
from backend.dispatch import Directed
from backend.domain import tree_shape
from backend.domain.cluster_switch import Phase
from backend.domain.switch_commands import Abort
from backend.domain.tree import SwitchTarget, clusters_of
from backend.eventlog.recorded import Metadata
from backend.queries.switches import SwitchRow, find_switch, list_phases, moving_switches
from backend.queries.trees import get_tree


def event_stream(switch: str) -> str:
    """The event stream of a switch."""
    return f"switch-{switch}"


def busy_tenants(connection: Connection) -> Mapping[str, str]:
    """Tenant -> the switch that is about to move it."""
    return {tenant: row.id for row in moving_switches(connection) for tenant in row.tenants}


def taking_back(connection: Connection, switch: str, abort: Abort, metadata: Metadata) -> list[Directed]:
    """An abort, and with it the targets that the switch has changed; read under the append lock."""
    row = find_switch(connection, switch)
    back = [Directed(TREE, "tree-main", each, metadata) for each in _targets_back(connection, row)]
    return [Directed(SWITCH, event_stream(switch), abort, metadata), *back]


def _targets_back(connection: Connection, row: SwitchRow) -> list[SwitchTarget]:
    tree = get_tree(connection)
    # A hold that ran out later leads back to an earlier phase, and not the targets with it.
    changed = any(phase.name == Phase.RETARGETING for phase in list_phases(connection, [row.id])[row.id])
    if tree is None or not row.is_moving or not changed:
        return []
    root = tree_shape.parse(tree.root, clusters_of(tree.root))
    allowed = {(cluster, level): leaves for cluster, level, leaves in tree_shape.siblings(root)}
    return [
        SwitchTarget(cluster=each.cluster, level=each.level, target=each.previous)
        for each in row.retargets
        # One that somebody has changed since stays, and one that the tree has no way back for.
        if tree.targets.get((each.cluster, each.level)) == each.target
        and each.previous in allowed.get((each.cluster, each.level), ())
    ]
