"""Consumer groups of the large company as observed on its clusters, and the history of its measures."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Engine

from backend.domain.history.steps import MINUTE, TEN_MINUTES
from backend.domain.offsets.observed_group import GroupMember, GroupPartition
from backend.eventlog.engine import create_engine
from backend.queries.history import measure_writing
from backend.queries.history.measure_tables import SERIES_A_BLOCK
from backend.queries.history.measures import METRICS
from backend.queries.offsets import group_store
from backend.queries.offsets.observed_groups import GroupRow, group_row
from backend.settings import Settings

GROUPS, CLUSTERS, LEVELS, PARTITIONS = 10_000, 50, 6, 4
_FILL = """
INSERT INTO measure_samples
SELECT :step, block, :first + make_interval(secs => number * :step),
  ARRAY(SELECT (random() * 1e4)::real FROM generate_series(1, :places) WHERE block >= 0 AND number >= 0)
FROM generate_series(0, :blocks - 1) block, generate_series(0, :rows - 1) number
"""


def _group(number: int, now: datetime, chance: random.Random) -> GroupRow:
    """Return a group that reads one stream with two members; every tenth lags."""
    now_ms = round(now.timestamp() * 1000)
    tenant, stream = f"tenant-{number % 200:03}", f"stream-{number % 5000:04}"
    lag = chance.randrange(1, 100_000) if number % 10 == 0 else 0
    members = [
        GroupMember(member_id=f"m{each}-{number}", client_id=f"client-{each}", host="10.0.0.1", partitions=2)
        for each in range(2)
    ]
    partitions = [
        GroupPartition(
            topic=f"{tenant}-main-prod-{stream}",
            stream=f"{tenant}/main/prod/{stream}",
            partition=each,
            committed_offset=1_000_000,
            end_offset=1_000_000 + lag,
            lag_records=lag,
            records_per_second=100.0,
            produced_per_second=120.0,
            time_lag_ms=60_000 if lag else 0,
            moved_at_ms=now_ms - 1_000,
            observed_since_ms=now_ms - 3_600_000,
            member=members[each % 2].member_id,
        )
        for each in range(PARTITIONS)
    ]
    return group_row(
        cluster=f"cluster-{number % CLUSTERS + 1}",
        technical_group=f"{tenant}-main-prod-group-{number}",
        group=f"group-{number}",
        place=f"{tenant}/main/prod",
        state="Stable",
        protocol="classic",
        members=members,
        partitions=partitions,
        observed_at=now,
    )


def fill(engine: Engine) -> int:
    """Store the groups, and samples of every series up to its retention; return the number of series."""
    now, chance = datetime.now(UTC), random.Random(7)
    groups = [_group(number, now, chance) for number in range(GROUPS)]
    by_cluster: dict[str, list[GroupRow]] = {}
    for each in groups:
        by_cluster.setdefault(each.cluster, []).append(each)
    with engine.begin() as connection:
        for cluster, rows in by_cluster.items():
            group_store.store_groups(connection, cluster, rows, now)
    subjects = {
        "edge": [f"cluster-{each + 1}:{level + 1}" for each in range(CLUSTERS) for level in range(LEVELS)],
        "cluster": list(by_cluster),
        "group": [f"{each.cluster}/{each.technical_group}" for each in groups],
    }
    values = {
        (metric, subject): 1.0 for metric in METRICS for subject in subjects.get(metric.partition(".")[0], ())
    }
    settings = Settings()
    kept = measure_writing.Kept(
        minute_hours=settings.history_minute_hours,
        hours=settings.history_hours,
        most_series=settings.history_most_series,
    )
    at = now.replace(second=0, microsecond=0)
    owner = create_engine(engine.url, role=None)
    with owner.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        measure_writing.write_minute(connection, at - kept.longest, values, kept)
        connection.execute(sa.text("DELETE FROM measure_samples"))
        for step in (MINUTE, TEN_MINUTES):
            rows = int(kept.retention(step).total_seconds()) // step
            given = {
                "step": step,
                "rows": rows,
                # Samples of ten minutes are at full ten minutes.
                "first": at - timedelta(seconds=at.timestamp() % step + rows * step),
                "blocks": -(-len(values) // SERIES_A_BLOCK),
                "places": SERIES_A_BLOCK,
            }
            connection.execute(sa.text(_FILL), given)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))
    owner.dispose()
    return len(values)
