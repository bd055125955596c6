"""Consumer groups as a worker would have observed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from backend.domain.offsets.observed_group import GroupMember, GroupPartition
from backend.queries.offsets import group_store
from backend.queries.offsets.observed_groups import GroupRow, group_row
from tests.support.database.postgres import Database

ORDERS, ITEMS = "acme/retail/prod/orders", "globex/shop/prod/items"
AT = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
NOW_MS = round(AT.timestamp() * 1000)
OWNER = GroupMember(member_id="m-1", client_id="billing-7", host="10.1.2.3", partitions=2)


def partition(number: int, *, stream: str | None = ORDERS, **changed: Any) -> GroupPartition:
    """Return a partition with a lag of 1,204 records that a member reads at 120 records/s."""
    given: dict[str, Any] = {
        "topic": "acme-retail-prod-orders",
        "committed_offset": 34_988,
        "end_offset": 36_192,
        "lag_records": 1_204,
        "records_per_second": 120.0,
        "produced_per_second": 300.0,
        "time_lag_ms": 95_000,
        "moved_at_ms": NOW_MS - 4_000,
        "observed_since_ms": NOW_MS - 3_600_000,
        "member": "m-1",
    }
    return GroupPartition(stream=stream, partition=number, **{**given, **changed})


def group(
    name: str = "billing",
    cluster: str = "c1",
    members: Sequence[GroupMember] = (OWNER,),
    partitions: Sequence[GroupPartition] = (partition(0), partition(1)),
    **changed: Any,
) -> GroupRow:
    given: dict[str, Any] = {
        "technical_group": f"acme-retail-prod-{name}",
        "group": name,
        "place": "acme/retail/prod",
        "state": "Stable" if members else "Empty",
        "protocol": "classic",
        "observed_at": AT,
    }
    return group_row(cluster=cluster, members=members, partitions=partitions, **{**given, **changed})


def observed(database: Database, *found: GroupRow) -> None:
    """Store these groups as the clusters' last observation."""
    with database.engine.begin() as connection:
        for cluster in {each.cluster for each in found}:
            its = [each for each in found if each.cluster == cluster]
            group_store.store_groups(connection, cluster, its, datetime.now(UTC))


OTHERS = GroupMember(member_id="m-9", client_id="items-reader", host="10.9.9.9", partitions=1)


def of_globex() -> GroupRow:
    return group(
        "stock",
        members=(OTHERS,),
        partitions=(partition(0, stream=ITEMS, topic="globex-shop-prod-items", member="m-9"),),
        technical_group="globex-shop-prod-stock",
        place="globex/shop/prod",
    )


def some_groups(database: Database) -> None:
    """Store groups with several diagnoses, on two clusters and of two tenants."""
    second = GroupMember(member_id="m-2", client_id="billing-8", host="10.1.2.4", partitions=2)
    shared = [partition(number, member=f"m-{1 + number // 2}") for number in range(4)]
    there = replace(OWNER, client_id="billing-9", host="10.2.2.5", partitions=1)
    behind = {"committed_offset": 36_076, "lag_records": 116, "time_lag_ms": 3_100}
    in_time = partition(0, **behind, records_per_second=37.0, produced_per_second=37.0)
    observed(
        database,
        group(members=(OWNER, second), partitions=shared),
        group("audit", members=(), partitions=(partition(0, member=None, records_per_second=0.0),)),
        group("search", partitions=(partition(0, records_per_second=900.0),)),
        group("fraud-check", partitions=(partition(0, lag_records=0, time_lag_ms=0),)),
        group(cluster="c2", members=(there,), partitions=(in_time,)),
        of_globex(),
    )
