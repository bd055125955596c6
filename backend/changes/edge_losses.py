"""Operator actions on records that distributors could not copy: replay dead letters, acknowledge losses."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine

from backend.changes.change import Change
from backend.cluster_requests import trace_facts
from backend.cluster_requests.replay import Replay, replay
from backend.cluster_requests.trace_facts import TraceFacts
from backend.deciders import EDGE
from backend.domain.base.errors import NotFound
from backend.domain.distribution.edge_losses import Acknowledge, Edge, EdgeCommand, RecordReplay
from backend.queries.distribution.edge_losses import DeadLetterRow, list_dead_letters
from backend.queries.distribution.leaf_routes import list_leaves
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tree.trees import get_tree
from backend.settings import Settings

EdgeChange = Change[Edge, EdgeCommand]


def find_set_aside(connection: Connection, identity: str) -> DeadLetterRow:
    """Return a dead-lettered record by its id. Raises NotFound."""
    for row in list_dead_letters(connection):
        if row.id == identity:
            return row
    raise NotFound(f"there is no dead-lettered record {identity[:300]!r}; GET /set-aside lists them")


def facts_of(connection: Connection, config: Settings, row: DeadLetterRow) -> TraceFacts:
    """Return where to look for copies of the record's stream. Raises what `trace_facts.read` does."""
    return trace_facts.read(connection, config, row.cluster, row.stream, row.partition)


def replay_dead_letter(engine: Engine, config: Settings, row: DeadLetterRow, *, dry_run: bool = False) -> Replay:
    """Write a dead-lettered record to the clusters that lack it; a repeat writes nothing twice.

    `dry_run` only tells where it would be written. Raises what `replay` does.
    """
    with engine.connect() as connection:
        known = facts_of(connection, config, row)
        leaves, buckets = list_leaves(connection), partition_buckets(connection, config)
    return replay(engine, known, row, leaves, buckets, config.quarantine_topic, dry_run=dry_run)


def record_replay(row: DeadLetterRow, done: Replay) -> EdgeChange:
    """Record that a dead-lettered record was replayed."""
    command = RecordReplay(id=row.id, clusters=done.written)
    return Change(EDGE, event_stream(row.cluster, row.level), lambda _: command)


def _whatever(connection: Connection) -> None:
    """Accept any state: a match for callers that acknowledge whatever is lost by now."""


def acknowledge(cluster: str, level: int, match: Callable[[Connection], None] = _whatever) -> EdgeChange:
    """Acknowledge all losses of a distributor; `match` raises StaleVersion if they differ from those reviewed."""

    def build(connection: Connection) -> Acknowledge:
        tree = get_tree(connection)
        if tree is None or (cluster, level) not in tree.targets:
            raise NotFound(f"there is no distributor of cluster {cluster[:300]!r} at level {level}")
        match(connection)
        return Acknowledge(cluster=cluster, level=level)

    return Change(EDGE, event_stream(cluster, level), build)


def event_stream(cluster: str, level: int) -> str:
    """Return the name of the event stream for a distributor's losses and dead letters."""
    return f"edge-{cluster}-{level}"
