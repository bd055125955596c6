"""Tables of measures over time: a number for each series, and rows that hold samples of many series.

A row holds the samples that SERIES_A_BLOCK series had at one time, at one of two resolutions: series `id` is in
block `id / SERIES_A_BLOCK`, at place `id % SERIES_A_BLOCK`. Samples are only inserted, and deleted by age.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from backend.eventlog.tables import METADATA

SERIES_A_BLOCK = 100
"""Series of a row: enough that the row's own 50 bytes do not count, and few enough to read one series quickly."""

measure_series = sa.Table(
    "measure_series",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("metric", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    # Earlier samples at the place belong to a former series of the same id.
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    # Time of its latest samples, to within some hours: it is updated rarely.
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    sa.UniqueConstraint("metric", "subject", name="measure_series_of"),
)

measure_samples = sa.Table(
    "measure_samples",
    METADATA,
    sa.Column("step_seconds", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
    # One place for each series of the block, up to the last one with a value; NULL where a sample is missing.
    sa.Column("values", ARRAY(sa.REAL), nullable=False),
)
