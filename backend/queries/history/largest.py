"""The order of a metric's subjects by their values lately: of thousands of series a page shows a few."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.history.steps import MINUTE
from backend.queries.history.measure_tables import SERIES_A_BLOCK, measure_samples, measure_series


def largest_since(connection: Connection, metric: str, since: datetime) -> list[str]:
    """Return the subjects of a metric by their largest samples since a time, the largest first.

    It reads samples of a minute: rows with a series of this metric, each row once, and of them the values of this
    metric's series. Subjects without a sample are left out.
    """
    of, each = measure_samples.c, measure_series.c
    subjects = {
        row.id: row.subject
        for row in connection.execute(sa.select(each.id, each.subject).where(each.metric == metric))
    }
    block = (each.id // SERIES_A_BLOCK).label("block")
    series = (
        sa.select(block, sa.func.array_agg(each.id).label("ids"), sa.func.array_agg(each.since).label("begun"))
        .where(each.metric == metric)
        .group_by(block)
        .subquery("series")
    )
    place = sa.func.unnest(series.c.ids, series.c.begun).table_valued("id", "begun").render_derived("place")
    value = of["values"][place.c.id % SERIES_A_BLOCK + 1]
    # With these blocks, the time range is found by the primary key.
    blocks = sa.literal(sorted({number // SERIES_A_BLOCK for number in subjects}), ARRAY(sa.Integer))
    query = (
        sa.select(place.c.id, sa.func.max(value).label("peak"))
        .select_from(measure_samples.join(series, series.c.block == of.block).join(place, sa.true()))
        .where(of.step_seconds == MINUTE, of.block == sa.any_(blocks), of.at >= since)
        .where(of.at >= place.c.begun, value.is_not(None))
        .group_by(place.c.id)
    )
    # A series may be new since the first statement.
    peaks = {subjects[row.id]: row.peak for row in connection.execute(query) if row.id in subjects}
    return sorted(peaks, key=lambda subject: (-peaks[subject], subject))
