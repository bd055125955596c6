"""Consumer groups as workers would have observed them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from backend.domain.offsets.observed_group import GroupMember, GroupPartition
from backend.queries.offsets.observed_groups import GroupRow, group_row

AT = datetime(2026, 11, 28, 14, 2, tzinfo=UTC)
AT_MS = round(1000 * AT.timestamp())
ORDERS = "acme/retail/prod/orders"


def member(number: int = 7, partitions: int = 1) -> GroupMember:
    """Return a member on a host of its own."""
    return GroupMember(
        member_id=f"m-{number}", client_id=f"client-{number}", host=f"10.1.2.{number}", partitions=partitions
    )


def partition(
    number: int = 0, committed: int | None = 90, end: int | None = 100, stream: str | None = ORDERS, **fields: Any
) -> GroupPartition:
    """Return a partition of a stream, whose topic is called like the stream."""
    known = {
        "topic": "strange" if stream is None else stream.rpartition("/")[2],
        "lag_records": None if committed is None or end is None else max(0, end - committed),
        "observed_since_ms": AT_MS - 3_600_000,
    }
    return GroupPartition(
        stream=stream,
        partition=number,
        committed_offset=committed,
        end_offset=end,
        **{**known, **fields},
    )


def observed(name: str, *partitions: GroupPartition, cluster: str = "c1", **fields: Any) -> GroupRow:
    """Return a stable group of acme/retail/prod, unless fields say otherwise."""
    known = {
        "group": name,
        "place": "acme/retail/prod",
        "state": "Stable",
        "state_since_ms": AT_MS - 3_600_000,
        "protocol": "classic",
        "members": [member()],
        "observed_at": AT,
    }
    return group_row(
        cluster=cluster,
        technical_group=f"acme-retail-prod-{name}" if fields.get("place", True) else name,
        partitions=list(partitions),
        **{**known, **fields},
    )
