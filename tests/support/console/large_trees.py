"""Trees of many clusters that are online, with distributors as workers report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from backend.deciders import CLUSTER, TREE
from backend.domain.clusters.cluster import AddCluster
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import ReplaceTree
from backend.eventlog.tables import event_log_head
from backend.queries.base.observed import leases, unit_states
from backend.settings import settings
from tests.support.console.visitors import record
from tests.support.database.postgres import Database

Facts = Mapping[tuple[str, int], Mapping[str, Any]]
"""(cluster, level) -> what is reported otherwise."""
_USUAL = {"state": "running", "reason": None, "lag_records": 3, "wait_seconds": 1.0, "records_per_second": 240.0}
_NOTHING = ("copied_records", "copied_bytes", "unreadable_flags", "schema_holds", "schema_waits_run_out")


def halves(names: list[str], level: int) -> dict[str, Any]:
    """Return the document of a tree that halves the names at each level."""
    if len(names) == 1:
        return {"cluster": names[0]}
    half = (len(names) + 1) // 2
    return {"level": level, "children": [halves(names[:half], level - 1), halves(names[half:], level - 1)]}


def grow(database: Database, count: int, offline: str | None = None) -> list[str]:
    """Add clusters c01, c02, … in a tree that halves them; return their names."""
    names = [f"c{number:02}" for number in range(1, count + 1)]
    for number, name in enumerate(names, 1):
        found = (
            {"unreachable": "it is gone"} if name == offline else {"kafka_cluster_id": f"id-{name}", "brokers": 3}
        )
        added = AddCluster(name=name, number=number, bootstrap_servers="127.0.0.1:9", zone="az1", **found)  # type: ignore[arg-type]
        record(database, added, CLUSTER, f"cluster-{name}")
    root = halves(names, (count - 1).bit_length())
    record(database, ReplaceTree(root=root, known_clusters=frozenset(names)), TREE, "tree-main")
    return names


def report(database: Database, names: list[str], otherwise: Facts | None = None) -> None:
    """Put all distributors of a tree that halves the names into their usual state, or into another one."""
    shape = tree_shape.parse(halves(names, (len(names) - 1).bit_length()), names)
    held, states = [], []
    for (cluster, level), target in tree_shape.default_targets(shape).items():
        facts = {**_USUAL, **(otherwise or {}).get((cluster, level), {}), "target": target}
        for bucket in range(settings().partition_buckets):
            unit = {"unit": f"distributor:{cluster}:{level}:{bucket}", "holder": "w:1", "epoch": 1}
            held.append(unit)
            states.append({**unit, **facts, **dict.fromkeys(_NOTHING, 0), "schema_held_seconds": 0.0})
    lasting = sa.text("clock_timestamp() + interval '1 hour'")
    with database.engine.begin() as connection:
        head = connection.execute(sa.select(event_log_head.c.position)).scalar_one()
        for table in (leases, unit_states):
            connection.execute(sa.delete(table))
        connection.execute(sa.insert(leases).values(expires_at=lasting), held)
        connection.execute(sa.insert(unit_states).values(seen_at=lasting, position=head), states)
