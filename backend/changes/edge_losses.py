"""What an operator does about what distributors could not copy: replays records, takes note of losses."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine

from backend.changes.change import Change
from backend.deciders import EDGE
from backend.domain.base.errors import NotFound
from backend.domain.distribution.edge_losses import Acknowledge, Edge, EdgeCommand, RecordReplay
from backend.queries.distribution.edge_losses import SetAsideRow, list_set_aside
from backend.queries.distribution.leaf_routes import list_leaves
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tree.trees import get_tree
from backend.settings import Settings
from backend.tracing import scene
from backend.tracing.replay import Replay, replay
from backend.tracing.scene import Scene

EdgeChange = Change[Edge, EdgeCommand]


def find_set_aside(connection: Connection, identity: str) -> SetAsideRow:
    """A record that was set aside. Raises NotFound."""
    for row in list_set_aside(connection):
        if row.id == identity:
            return row
    raise NotFound(f"no record {identity[:300]!r} was set aside; GET /set-aside lists them")


def scene_of(connection: Connection, config: Settings, row: SetAsideRow) -> Scene:
    """Where the record's stream is to be looked for. Raises what `scene.read` does."""
    return scene.read(connection, config, row.cluster, row.stream, row.partition)


def write_again(engine: Engine, config: Settings, row: SetAsideRow, *, dry_run: bool = False) -> Replay:
    """Write the record where it is missing; once more writes nothing twice. `dry_run`: say where that would be.
    Raises as `replay` does."""
    with engine.connect() as connection:
        known = scene_of(connection, config, row)
        leaves, buckets = list_leaves(connection), partition_buckets(connection, config)
    return replay(engine, known, row, leaves, buckets, config.quarantine_topic, dry_run=dry_run)


def record_replay(row: SetAsideRow, done: Replay) -> EdgeChange:
    """Say that it was written again."""
    command = RecordReplay(id=row.id, clusters=done.written)
    return Change(EDGE, event_stream(row.cluster, row.level), lambda _: command)


def _whatever(connection: Connection) -> None:
    """For those who take note of all that is lost by now."""


def acknowledge(cluster: str, level: int, match: Callable[[Connection], None] = _whatever) -> EdgeChange:
    """Take note of all that a distributor lost so far; `match` raises StaleVersion if that is not what one saw."""

    def build(connection: Connection) -> Acknowledge:
        tree = get_tree(connection)
        if tree is None or (cluster, level) not in tree.targets:
            raise NotFound(f"there is no distributor of cluster {cluster[:300]!r} at level {level}")
        match(connection)
        return Acknowledge(cluster=cluster, level=level)

    return Change(EDGE, event_stream(cluster, level), build)


def event_stream(cluster: str, level: int) -> str:
    """The event stream of what a distributor could not copy."""
    return f"edge-{cluster}-{level}"
