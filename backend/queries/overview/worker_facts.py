"""Workers: when those of each kind last reported, and since when tasks wait for one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.distribution import assignment
from backend.domain.overview.estate_facts import WorkersFact
from backend.projections.temporal import as_of
from backend.projections.trees import tree_targets
from backend.queries.base.events import times_of
from backend.queries.base.observed import cluster_replication, leases, shifts, unit_states
from backend.queries.distribution.distributors import DistributorRow
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.offsets.group_tables import group_observations
from backend.settings import settings

_NOW = sa.func.clock_timestamp()
_CONTROL_LEASE = "reconcile"
"""Lease of the worker with the queue `treeline.control`, whatever it can reach."""


def read_workers(connection: Connection) -> tuple[datetime, WorkersFact]:
    """Return the database's time, and when workers of each kind last reported."""
    kept = sa.select(sa.func.least(leases.c.expires_at, _NOW)).where(leases.c.unit == _CONTROL_LEASE)
    seen = (cluster_replication.c.seen_at, group_observations.c.observed_at)
    copied = (_newest(column) for column in (shifts.c.seen_at, unit_states.c.seen_at))
    controlled = (kept.scalar_subquery(), *(_newest(column) for column in seen))
    row = connection.execute(
        sa.select(
            _NOW.label("now"),
            sa.func.greatest(*copied).label("copied"),
            sa.func.greatest(*controlled).label("controlled"),
        )
    ).one()
    return row.now, WorkersFact(copied_at=row.copied, controlled_at=row.controlled)


def _newest(column: sa.Column[datetime]) -> sa.ScalarSelect[datetime]:
    return sa.select(sa.func.max(column)).scalar_subquery()


def waiting_since(connection: Connection, rows: Sequence[DistributorRow]) -> dict[tuple[str, int], datetime]:
    """Return when the oldest wait for a worker began, of starting distributors with such tasks.

    A task waits since its last lease ended; one that never had any, since its distributor got its target.
    """
    starting = [(row.cluster, row.level) for row in rows if row.observed and row.observed.state == "starting"]
    if not starting:
        return {}
    units = {task.name: (task.cluster, task.level) for task in _tasks(connection, starting)}
    valid = sa.and_(leases.c.holder.is_not(None), leases.c.expires_at > _NOW).label("valid")
    ended = sa.func.least(leases.c.expires_at, _NOW).label("ended")
    names = sa.literal(list(units), ARRAY(sa.Text))
    found = connection.execute(sa.select(leases.c.unit, valid, ended).where(leases.c.unit == sa.any_(names))).all()
    held = {row.unit for row in found if row.valid}
    since = _targets_since(connection)
    waiting = {place: since[place] for unit, place in units.items() if unit not in held and place in since}
    for row in found:
        place = units[row.unit]
        if not row.valid and place in waiting:
            waiting[place] = max(waiting[place], row.ended)
    return waiting


def _tasks(connection: Connection, places: Sequence[tuple[str, int]]) -> Sequence[assignment.Task]:
    return assignment.tasks(places, partition_buckets(connection, settings()))


def _targets_since(connection: Connection) -> dict[tuple[str, int], datetime]:
    of = tree_targets.c
    query = sa.select(of.cluster, of.level, of.valid_from).where(as_of(tree_targets, None))
    rows = connection.execute(query).all()
    times = times_of(connection, {row.valid_from for row in rows})
    return {(row.cluster, row.level): times[row.valid_from] for row in rows if row.valid_from in times}
