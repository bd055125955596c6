"""Observations of the large company, and a week of snapshots of them.

One group for each of 20,000 partitions, whose offsets are translated to nine other clusters. The first hundred,
which the page shows, have committed in each minute: with the offsets set elsewhere 2,000,000 rows.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from backend.eventlog.engine import create_engine
from backend.eventlog.tables import events
from backend.queries.history import snapshots
from backend.queries.history.snapshot_tables import looks, past_applied, past_commits

GROUPS, ELSEWHERE, BUSY, MINUTES = 20_000, 9, 100, 7 * 24 * 60
_COMMITS = """
INSERT INTO group_commits (cluster, stream, partition, "group", technical_group, committed_offset, committed_at_ms,
    published_at_ms)
SELECT 'cluster-' || 1 + n % 50,
    'tenant-' || to_char(n % 200, 'FM000') || '/main/prod/stream-' || to_char(n % 5000, 'FM0000'),
    n / 5000, 'group-' || n % 300, 'tenant-group-' || n % 300, n, 1767225600000, 0
FROM generate_series(0, :groups - 1) n
"""
_APPLIED = """
INSERT INTO applied_offsets (cluster, stream, partition, "group", technical_group, state, origin_cluster,
    generation, committed_at_ms, "offset", mode, re_read_bound)
SELECT 'cluster-' || 1 + (substr(cluster, 9)::int + k - 1) % 50,
    stream, partition, "group", technical_group, 'applied', cluster,
    1, committed_at_ms, committed_offset, 'margin', 12
FROM group_commits, generate_series(1, :elsewhere) k
"""
_CHANGES = (
    "UPDATE group_commits SET committed_offset = committed_offset + 1 WHERE committed_offset % 20 = 0",
    'UPDATE applied_offsets SET "offset" = "offset" + 1 WHERE "offset" % 20 = 0',
)
_IS_BUSY = """
(stream, partition, "group") IN (
    SELECT stream, partition, "group" FROM (
        SELECT cluster, stream, partition, "group" FROM group_commits ORDER BY 1, 2, 3, 4 LIMIT :busy
    ) first
)
"""
_MINUTE = "CAST(:last AS timestamptz) - (:minutes - m) * interval '1 minute'"


def fill(engine: Engine, position: int) -> list[float]:
    """Write observations, take some snapshots while a twentieth changes, and extend them to a week.

    The week ends at the event of a position. Returns the seconds of each snapshot.
    """
    owner, took = create_engine(engine.url, role=None), []
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("SET statement_timeout = 0"))
        connection.execute(sa.text(_COMMITS), {"groups": GROUPS})
        connection.execute(sa.text(_APPLIED), {"elsewhere": ELSEWHERE})
        connection.execute(sa.text("ANALYZE"))
        for _ in range(4):
            began = time.perf_counter()
            assert snapshots.take_snapshot(engine)
            took.append(time.perf_counter() - began)
            for statement in _CHANGES:
                connection.execute(sa.text(statement))
        moment = connection.execute(sa.select(events.c.time).where(events.c.position == position)).scalar_one()
        _week(connection, moment - timedelta(seconds=30))
        # As PostgreSQL does by itself within a minute.
        connection.execute(sa.text("VACUUM ANALYZE"))
    owner.dispose()
    return took


def _week(connection: Connection, last: datetime) -> None:
    """Add snapshots a minute apart up to `last`, each with other values for the busy groups."""
    given = {"last": last, "minutes": MINUTES}
    connection.execute(sa.delete(looks))
    connection.execute(sa.text(f"INSERT INTO looks SELECT {_MINUTE} FROM generate_series(1, :minutes) m"), given)
    for table, fewer in ((past_commits, 1), (past_applied, ELSEWHERE)):
        # An offset that is set elsewhere is set less often: as many rows in either table.
        counted = {"last": last, "minutes": MINUTES // fewer, "busy": BUSY}
        name, columns = (
            table.name,
            ", ".join(f'"{each.name}"' for each in table.c if each.name not in ("since", "until", "is_newest")),
        )
        connection.execute(sa.delete(table).where(table.c.until.is_not(None)))
        connection.execute(sa.update(table).values(since=last - timedelta(minutes=MINUTES)))
        connection.execute(
            sa.text(
                f"INSERT INTO {name} (since, until, is_newest, {columns}) "
                f"SELECT {_MINUTE}, {_MINUTE} + interval '1 minute', false, {columns} "
                f"FROM {name}, generate_series(1, :minutes - 1) m WHERE is_newest AND {_IS_BUSY}"
            ),
            counted,
        )
        connection.execute(sa.text(f"UPDATE {name} SET since = :last WHERE is_newest AND {_IS_BUSY}"), counted)
