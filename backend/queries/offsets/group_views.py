"""Conditions and values of queries that give members of a tenant their view of observed groups.

`observed_groups.seen_by` says the same of a row.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import ColumnElement
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from backend.queries.offsets.group_tables import observed_groups


def is_seen(tenants: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that members of one of these tenants see at least a part of the group."""
    found: ColumnElement[bool] = observed_groups.c.tenants.overlap(list(tenants))
    return found


def lag_seen(tenants: Collection[str] | None) -> ColumnElement[int]:
    """Return the lag of the partitions that members of these tenants see (None: of all); -1 if it is not known.

    Lists are ordered by it: by the stored lag of a shared group, its place in the list would tell how far it lags
    on other tenants' partitions.
    """
    t = observed_groups.c
    stored = sa.func.coalesce(t.lag_records, -1)
    if tenants is None:
        return stored
    these = sa.literal(list(tenants), ARRAY(sa.Text))
    each = sa.func.jsonb_array_elements(t.partitions).column_valued("each")
    stream, lag = (sa.cast(each, JSONB)[name].astext for name in ("stream", "lag_records"))
    is_own, is_of_own_stream = (sa.func.split_part(name, "/", 1) == sa.any_(these) for name in (t.place, stream))
    seen = sa.select(sa.cast(sa.func.sum(sa.cast(lag, sa.BigInteger)), sa.BigInteger))
    seen = seen.where(stream.is_not(None), sa.or_(is_own, is_of_own_stream))
    return sa.case((t.is_shared, sa.func.coalesce(seen.scalar_subquery(), -1)), else_=stored)
