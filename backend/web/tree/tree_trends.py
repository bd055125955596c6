"""The last hour of distributors, as sparklines in the table and in the drawer of the Tree page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from backend.web.history.measure_charts import charts_address
from backend.web.history.recent_sparklines import RecentSparklines
from backend.web.history.sparkline import Sparkline

_RATE, _LAG = "edge.records_per_second", "edge.lag_records"
_RATES, _LAGS = RecentSparklines(_RATE), RecentSparklines(_LAG)


@dataclass(frozen=True)
class Trends:
    """Sparklines by the key of the distributor, None where there are no values."""

    rates: Mapping[str, Sparkline | None] = field(default_factory=dict)
    lags: Mapping[str, Sparkline | None] = field(default_factory=dict)


NO_TRENDS = Trends()
"""Trends at an earlier position: observations are not stored with positions."""


def read_trends(connection: Connection, keys: Iterable[str]) -> Trends:
    """Return the trends of the distributors with these keys; those that were read lately are not read again."""
    shown = list(keys)
    return Trends(_RATES.read(connection, shown), _LAGS.read(connection, shown))


def rate_chart(key: str) -> str:
    """Return the address of a distributor's chart of rates."""
    return charts_address(_RATE, key)


def lag_chart(key: str) -> str:
    """Return the address of a distributor's chart of lags."""
    return charts_address(_LAG, key)
