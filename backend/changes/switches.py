"""Changes of switches: starting one as its plan says, taking it back before the move."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from backend.deciders import SWITCH, TREE
from backend.dispatch import Directed
from backend.domain.switch_commands import Abort
from backend.domain.tree import SwitchTarget
from backend.eventlog.recorded import Metadata
from backend.queries.switches import find_switch, moving_switches
from backend.queries.trees import get_tree


def event_stream(switch: str) -> str:
    """The event stream of a switch."""
    return f"switch-{switch}"


def busy_tenants(connection: Connection) -> Mapping[str, str]:
    """Tenant -> the switch that is about to move it."""
    return {tenant: row.id for row in moving_switches(connection) for tenant in row.tenants}


def taking_back(connection: Connection, switch: str, abort: Abort, metadata: Metadata) -> list[Directed]:
    """An abort, and with it the targets that the switch has changed; read under the append lock."""
    row, commands = find_switch(connection, switch), []
    tree = get_tree(connection)
    targets = {} if tree is None else tree.targets
    for each in row.retargets if row.is_moving else ():
        # One that somebody has changed since stays; so does one that was not changed yet.
        if targets.get((each.cluster, each.level)) == each.target:
            back = SwitchTarget(cluster=each.cluster, level=each.level, target=each.previous)
            commands.append(Directed(TREE, "tree-main", back, metadata))
    return [Directed(SWITCH, event_stream(switch), abort, metadata), *commands]
