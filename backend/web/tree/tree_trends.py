"""The last hour of each distributor, as sparklines in the table of the Tree page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from backend.queries.distribution.distributors import DistributorRow
from backend.web.history.measure_charts import charts_address, read_sparklines
from backend.web.history.sparkline import Sparkline

_RATE, _LAG = "edge.records_per_second", "edge.lag_records"
_AGAIN_SECONDS = 15
"""Seconds between two reads: the page polls each second, and there are new values once a minute."""


@dataclass(frozen=True)
class Trends:
    """Sparklines by the key of the distributor, None where there are no values."""

    rates: Mapping[str, Sparkline | None] = field(default_factory=dict)
    lags: Mapping[str, Sparkline | None] = field(default_factory=dict)
    read_at: float = field(default=0.0, compare=False)
    """Time of reading, in seconds of the monotonic clock."""


NO_TRENDS = Trends()
"""Trends at an earlier position: observations are not stored with positions."""


def read_trends(connection: Connection, distributors: Iterable[DistributorRow]) -> Trends:
    """Read the trends of these distributors."""
    keys = [f"{each.cluster}:{each.level}" for each in distributors]
    rates, lags = (read_sparklines(connection, metric, keys) for metric in (_RATE, _LAG))
    return Trends(rates, lags, time.monotonic())


def trends_again(connection: Connection, distributors: Iterable[DistributorRow], before: Trends) -> Trends:
    """Return the trends read before, or new ones if these are old."""
    is_new = time.monotonic() - before.read_at < _AGAIN_SECONDS
    return before if is_new else read_trends(connection, distributors)


def rate_chart(key: str) -> str:
    """Return the address of a distributor's chart of rates."""
    return charts_address(_RATE, key)


def lag_chart(key: str) -> str:
    """Return the address of a distributor's chart of lags."""
    return charts_address(_LAG, key)
