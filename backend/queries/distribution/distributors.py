"""Distributors of the tree: their desired state, and the state of their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from backend.domain.distribution import assignment
from backend.domain.distribution.distributor_states import worst
from backend.domain.records import copy_flags
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DEFAULTS, DistributorSettings
from backend.projections.streams import stream_topics, streams
from backend.projections.temporal import POSITIONS
from backend.projections.trees import trees
from backend.queries.base.observed import leases, unit_states
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.edge_losses import OpenCounts, count_open, open_troubles
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tenants.streams import apply_failures
from backend.queries.tree.trees import TreeRow, get_tree
from backend.settings import settings

_REFUSALS_SHOWN = 3
_HEARD_OF_SECONDS = 3.0
_PAUSED, _PAUSING = "paused", "pausing"


@dataclass(frozen=True)
class Observation:
    """Combined reports of one distributor's tasks; None where unknown."""

    state: str
    reason: str | None
    lag_records: int | None
    wait_seconds: float | None
    """Seconds that records wait (`backend.domain.distribution.wait_times`), on the slowest task."""
    in_time: bool | None
    """True if the wait is within the objective."""
    records_per_second: float | None
    copied_records: int
    copied_bytes: int
    unreadable_flags: int
    schema_holds: int
    schema_held_seconds: float
    schema_waits_run_out: int
    fencing_epoch: int | None
    holder: str | None
    position: int
    """Position of the desired state that all its tasks carry out."""


@dataclass(frozen=True)
class DistributorRow:
    """One distributor; `observed` is None under `?at=`."""

    cluster: str
    level: int
    target: str
    allowed_targets: tuple[str, ...]
    settings: DistributorSettings
    observed: Observation | None

    def document(self) -> dict[str, Any]:
        """Return the contract's row of GET /trees/main/distributors."""
        seen = self.observed
        return {
            "cluster": self.cluster,
            "level": self.level,
            "mask": copy_flags.text(copy_flags.mask(self.level)),
            "flag": copy_flags.text(copy_flags.flag(self.level)),
            "target": self.target,
            "allowed_targets": list(self.allowed_targets),
            "paused": self.settings.paused,
            "bytes_per_second": self.settings.bytes_per_second,
            "compression": self.settings.compression,
            "state": seen and seen.state,
            "reason": seen and seen.reason,
            "lag_records": seen and seen.lag_records,
            "wait_seconds": seen and seen.wait_seconds,
            "records_per_second": seen and seen.records_per_second,
            "copied_records": seen and seen.copied_records,
            "copied_bytes": seen and seen.copied_bytes,
            "unreadable_flags": seen and seen.unreadable_flags,
            "schema_holds": seen and seen.schema_holds,
            "schema_held_seconds": seen and seen.schema_held_seconds,
            "schema_waits_run_out": seen and seen.schema_waits_run_out,
            "fencing_epoch": seen and seen.fencing_epoch,
            "holder": seen and seen.holder,
        }


def list_distributors(connection: Connection, at: int | None = None) -> list[dict[str, Any]]:
    """Return `read_distributors` in the contract's form."""
    return [row.document() for row in read_distributors(connection, at)]


def read_distributors(connection: Connection, at: int | None = None) -> list[DistributorRow]:
    """Return all distributors of the tree, clusters from left to right, lowest level first."""
    tree = get_tree(connection, at)
    return [] if tree is None else distributors_of(connection, tree, list_clusters(connection, at), at)


def distributors_of(
    connection: Connection,
    tree: TreeRow,
    known: Iterable[ClusterRow],
    at: int | None = None,
    counts: OpenCounts | None = None,
) -> list[DistributorRow]:
    """Return `read_distributors`, for callers that have read some of what it needs."""
    clusters = {row.name: row for row in known}
    states = {} if at is not None else task_states_seen(connection)
    refused = {} if at is not None else apply_failures(connection)
    left_out = {} if at is not None else open_troubles(counts or count_open(connection))
    since = 0 if at is not None else plans_changed_at(connection)
    buckets = 0 if at is not None else partition_buckets(connection, settings())
    found = []
    for cluster, level, allowed in tree_shape.siblings(tree.shape):
        target = tree.targets[cluster, level]
        observed = None
        chosen = tree.settings.get((cluster, level), DEFAULTS)
        if at is None:
            names = [task.name for task in assignment.tasks([(cluster, level)], buckets)]
            rows = [states.get(name) for name in names]
            observed = _observe(rows, target, (clusters.get(cluster), clusters.get(target)), chosen)
            waiting = [left_out[cluster, level]] if (cluster, level) in left_out else []
            if observed.position < since:
                # A task does not know the lag of a stream that it has not resumed yet.
                observed = replace(observed, lag_records=None, wait_seconds=None, in_time=None)
            observed = _less(observed, waiting + refused.get(cluster, []) + refused.get(target, []))
        found.append(DistributorRow(cluster, level, target, allowed, chosen, observed))
    return found


def _less(observed: Observation, refused: Sequence[str]) -> Observation:
    """Return a running distributor as degraded if streams are refused at one of its ends."""
    if not refused or observed.state != "running":
        return observed
    more = f"; {len(refused) - _REFUSALS_SHOWN} more" if len(refused) > _REFUSALS_SHOWN else ""
    return replace(observed, state="degraded", reason="; ".join(refused[:_REFUSALS_SHOWN]) + more)


def plans_changed_at(connection: Connection) -> int:
    """Return the position of the last event that changed the tasks' plans."""
    # Each end by its own index: there are as many rows as the log has such events.
    ends = (table.c[end] for table in (trees, streams, stream_topics) for end in POSITIONS)
    newest = sa.select(sa.func.greatest(*(sa.select(sa.func.max(end)).scalar_subquery() for end in ends)))
    return connection.scalar(newest) or 0


def task_states_seen(connection: Connection) -> dict[str, Row[Any]]:
    """Return the states of tasks with a valid lease, by task; `silent` if the holder last reported long ago.

    After a database outage, the first rows read are those from before.
    """
    silent = unit_states.c.seen_at < sa.func.clock_timestamp() - timedelta(seconds=_HEARD_OF_SECONDS)
    query = (
        sa.select(unit_states, silent.label("silent"))
        .join(leases, sa.and_(leases.c.unit == unit_states.c.unit, leases.c.epoch == unit_states.c.epoch))
        .where(leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp())
    )
    return {row.unit: row for row in connection.execute(query)}


def _observe(
    rows: Sequence[Row[Any] | None],
    target: str,
    ends: Sequence[ClusterRow | None],
    chosen: DistributorSettings,
) -> Observation:
    present = [row for row in rows if row is not None and row.target == target]
    missing = len(rows) - len(present)
    states = [row.state for row in present] + ["starting"] * missing
    state = worst(states)
    reason = next((row.reason for row in present if row.reason), None)
    if missing and reason is None:
        reason = f"{missing} of {len(rows)} tasks wait for a worker"
    offline = [end for end in ends if end is not None and end.state == "offline"]
    if offline:
        state = "blocked"
        reason = "; ".join(f"{end.name} is offline: {end.reason}" for end in offline)
    if chosen.paused:
        # A paused task is not blocked. A task that has not reported its pause, or that has not reported at all,
        # may have a session that copies.
        going_on = len(rows) - sum(row.state == _PAUSED for row in present)
        state = _PAUSING if going_on else _PAUSED
        if going_on and reason is None:
            reason = f"{going_on} of {len(rows)} tasks have not stopped copying yet"
    lags: list[int] = [row.lag_records for row in present if not row.silent and row.lag_records is not None]
    waits = [row.wait_seconds for row in present if not row.silent and row.wait_seconds is not None]
    lag = sum(lags) if len(lags) == len(rows) else None
    longest = 0.0 if lag == 0 else max(waits) if lag is not None and len(waits) == len(rows) else None
    holders = sorted({row.holder for row in present})
    return Observation(
        state=state,
        reason=reason,
        lag_records=lag,
        wait_seconds=longest,
        in_time=None if longest is None else longest <= settings().distributor_objective_seconds,
        records_per_second=round(sum(row.records_per_second for row in present), 1) if present else None,
        copied_records=sum(row.copied_records for row in present),
        copied_bytes=sum(row.copied_bytes for row in present),
        unreadable_flags=sum(row.unreadable_flags for row in present),
        schema_holds=sum(row.schema_holds for row in present),
        schema_held_seconds=round(sum(row.schema_held_seconds for row in present), 3),
        schema_waits_run_out=sum(row.schema_waits_run_out for row in present),
        fencing_epoch=max((row.epoch for row in present), default=None),
        holder=", ".join(holders) or None,
        position=0 if missing else min(row.position for row in present),
    )
