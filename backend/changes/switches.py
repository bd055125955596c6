"""Abort of a switch before its move."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.deciders import SWITCH, TREE
from backend.dispatch import Directed
from backend.domain.switch.cluster_switch import Phase
from backend.domain.switch.switch_commands import Abort
from backend.domain.switch.switch_routes import restored
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import SwitchTarget
from backend.eventlog.recorded import Metadata
from backend.queries.switch.switches import SwitchRow, find_switch, list_phases
from backend.queries.tree.trees import get_tree


def event_stream(switch: str) -> str:
    """Return the name of a switch's event stream."""
    return f"switch-{switch}"


def abort_commands(connection: Connection, switch: str, abort: Abort, metadata: Metadata) -> list[Directed]:
    """Return the commands that abort a switch and restore its changed targets; read under the append lock."""
    row = find_switch(connection, switch)
    back = [Directed(TREE, "tree-main", each, metadata) for each in _targets_back(connection, row)]
    return [Directed(SWITCH, event_stream(switch), abort, metadata), *back]


def _targets_back(connection: Connection, row: SwitchRow) -> list[SwitchTarget]:
    tree = get_tree(connection)
    # A hold that expires later returns to an earlier phase without restoring targets.
    changed = any(phase.name == Phase.RETARGETING for phase in list_phases(connection, [row.id])[row.id])
    if tree is None or not row.is_moving or not changed:
        return []
    allowed = {(cluster, level): leaves for cluster, level, leaves in tree_shape.siblings(tree.shape)}
    return [
        SwitchTarget(cluster=each.cluster, level=each.level, target=each.target)
        for each in restored(tree.targets, row.retargets)
        # The tree may have changed so that the old target is no longer allowed.
        if each.target in allowed.get((each.cluster, each.level), ())
    ]
