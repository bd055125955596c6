"""The subjects of a metric with the largest values lately: of thousands of series a page shows a few."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.history.steps import MINUTE
from backend.queries.history.measure_tables import SERIES_A_BLOCK, measure_samples, measure_series


def largest_since(
    connection: Connection, metric: str, subjects: Collection[str], since: datetime, most: int
) -> list[str]:
    """Return those of the subjects with the largest samples since a time, the largest first; `most` at most.

    It reads samples of a minute, each row once for all of its series. Subjects without a sample are left out.
    """
    of = measure_samples.c
    value = sa.func.unnest(of["values"]).table_valued("value", with_ordinality="place").render_derived()
    peaks = (
        sa.select(
            (of.block * SERIES_A_BLOCK + value.c.place - 1).label("id"), sa.func.max(value.c.value).label("peak")
        )
        .select_from(measure_samples.join(value, sa.true()))
        .where(of.step_seconds == MINUTE, of.at >= since, value.c.value.is_not(None))
        .group_by(sa.text("1"))
        .subquery("peaks")
    )
    asked = sa.cast(sa.bindparam("subjects", list(subjects)), ARRAY(sa.Text))
    query = (
        sa.select(measure_series.c.subject)
        .join(peaks, peaks.c.id == measure_series.c.id)
        .where(measure_series.c.metric == metric, measure_series.c.subject == sa.any_(asked))
        .order_by(peaks.c.peak.desc(), measure_series.c.subject)
        .limit(most)
    )
    return list(connection.scalars(query))
