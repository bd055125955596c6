"""Observed groups as stored rows: each tenant's view, filters, order, pages, and ten thousand groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.base.errors import NotFound
from backend.queries.offsets import group_store
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.offsets.observed_groups import (
    GroupRow,
    GroupSummary,
    GroupsWanted,
    get_group,
    groups_called,
    list_groups,
    list_observations,
    list_summaries,
)
from tests.support.api.observed_groups import AT, AT_MS, member, observed, partition

ITEMS = "globex/shop/prod/items"
LAGGING = {"time_lag_ms": 120_000, "records_per_second": 1.0, "produced_per_second": 9.0}
WAITING = {**LAGGING, "records_per_second": 0.0}
MIXED = observed(
    "mixed",
    partition(0, 10, 100, member="m-7", **LAGGING),
    partition(1, 0, 1000, ITEMS, **WAITING),
    partition(2, 0, 7, None, **WAITING),
)


@pytest.fixture
def connection(database):
    with database.engine.begin() as found:
        yield found


def every(connection: Connection, **wanted) -> list[GroupRow]:
    return list_groups(connection, GroupsWanted(**{"limit": 100, **wanted}))


def names(rows) -> list[str]:
    return [row.group or row.technical_group for row in rows]


def test_a_row_comes_back_as_it_was_stored(connection: Connection) -> None:
    unnamed = observed("stranger", partition(0, 3, 9, None), place=None, group=None, members=[], state="Empty")
    group_store.store_groups(connection, "c1", [MIXED, unnamed], AT)
    assert every(connection) == [MIXED, unnamed]
    (restored, _) = sorted(group_store.stored_groups(connection, "c1"), key=lambda row: row.technical_group)
    assert (restored.code, restored.since_ms, restored.partitions) == ("unassigned", AT_MS, [*MIXED.partitions])
    assert list_summaries(connection, GroupsWanted(limit=9)) == [summary(row) for row in every(connection)]


def summary(row: GroupRow) -> GroupSummary:
    return GroupSummary(**{name: getattr(row, name) for name in GroupSummary.__dataclass_fields__})


def test_an_observation_replaces_the_last_one_of_its_cluster(connection: Connection) -> None:
    one, two = observed("one", partition()), observed("two", partition())
    group_store.store_groups(connection, "c1", [one, two], AT)
    group_store.store_groups(connection, "c2", [replace(one, cluster="c2")], AT)
    later = AT + timedelta(minutes=1)
    three = observed("three", partition())
    group_store.store_groups(connection, "c1", [three], later, unchanged=[two.technical_group], truncated=True)
    assert [(row.cluster, row.group) for row in every(connection)] == [
        ("c1", "three"),
        ("c1", "two"),
        ("c2", "one"),
    ]
    group_store.touch_groups(connection, "c1", [two.technical_group], later)
    assert {row.group: row.observed_at for row in every(connection, cluster="c1")}["two"] == later
    group_store.store_failure(connection, "c1", "no broker answers")
    (first, second) = list_observations(connection)
    assert (first.groups, first.reason, first.truncated) == (2, "no broker answers", True)
    assert (second.groups, second.reason, second.truncated) == (1, None, False)
    assert len(every(connection)) == 3, "a failure leaves the groups of the last observation"
    group_store.delete_except(connection, ["c2"])
    assert [row.cluster for row in every(connection)] == ["c2"]
    assert [row.cluster for row in list_observations(connection)] == ["c2"]


@pytest.mark.parametrize(
    ("tenants", "partitions", "lag", "code", "members"),
    [
        (None, [0, 1, 2], 1097, "unassigned", ["m-7"]),
        (["acme"], [0, 1], 1090, "unassigned", ["m-7"]),
        (["globex"], [1], 1000, "unassigned", []),
        (["acme", "globex"], [0, 1], 1090, "unassigned", ["m-7"]),
        (["other"], None, None, None, None),
        ([], None, None, None, None),
    ],
)
def test_what_a_tenant_sees_of_a_shared_group(connection, tenants, partitions, lag, code, members) -> None:
    group_store.store_groups(connection, "c1", [MIXED], AT)
    row = get_group(connection, "c1", MIXED.technical_group, tenants)
    listed = every(connection, tenants=tenants)
    light = list_summaries(connection, GroupsWanted(tenants=tenants, limit=5))
    if partitions is None:
        assert (row, listed, light) == (None, [], [])
        return
    assert row is not None and listed == [row] and [summary(each) for each in light] == [summary(row)]
    assert [each.partition for each in row.partitions] == partitions
    assert (row.lag_records, row.diagnosis.code) == (lag, code)
    assert [each.member_id for each in row.members] == members and row.member_count == 1
    assert {each.member for each in row.partitions} - {None} == set(members)


def test_who_may_not_see_members_learns_no_host_from_the_diagnosis(connection: Connection) -> None:
    still = {"member": "m-7", "time_lag_ms": 720_000, "moved_at_ms": AT_MS - 720_000, "stream": ITEMS}
    group_store.store_groups(connection, "c1", [observed("g", partition(3, **still))], AT)
    own = get_group(connection, "c1", "acme-retail-prod-g", ["acme"])
    other = get_group(connection, "c1", "acme-retail-prod-g", ["globex"])
    assert own is not None and other is not None
    assert own.diagnosis.code == other.diagnosis.code == "partition-stalled"
    assert "10.1.2.7" in own.diagnosis.text and "10.1.2.7" not in other.diagnosis.text
    assert other.partitions[0].member is None


def test_filters(connection: Connection) -> None:
    idle = observed("idle", partition(0, 100, 100, time_lag_ms=0))
    left = observed("left", partition(0, 0, 5), members=[], state="Empty")
    theirs = observed("theirs", partition(0, 0, 1, ITEMS, time_lag_ms=0), place="globex/shop/prod")
    group_store.store_groups(connection, "c1", [MIXED, idle, left, theirs], AT)
    assert names(every(connection, group="idle")) == names(every(connection, group="acme-retail-prod-idle"))
    assert names(every(connection, code="no-members")) == ["left"]
    assert names(every(connection, stream=ITEMS)) == ["mixed", "theirs"]
    assert names(every(connection, stream=ITEMS, tenants=["globex"])) == ["mixed", "theirs"]
    assert names(every(connection, text="RETAIL-PROD-L")) == ["left"]
    assert every(connection, text="%") == []
    assert names(every(connection, by_lag=True)) == ["mixed", "left", "theirs", "idle"]
    assert names(every(connection, tenants=["globex"], code="unassigned")) == ["mixed", "theirs"]
    assert names(groups_called(connection, "acme/retail/prod", "idle", None)) == ["idle"]
    assert groups_called(connection, "acme/retail/prod", "idle", ["globex"]) == []


def test_a_list_by_lag_tells_a_tenant_nothing_of_others_groups(connection: Connection) -> None:
    theirs = {"place": "globex/shop/prod"}
    rows = [
        observed("hidden", partition(0, 0, 70), members=[]),
        observed("large", partition(0, 0, 500, ITEMS), **theirs),
        observed("unknown", partition(0, None, 9, ITEMS), **theirs),
        observed("shared", partition(0, 0, 9_000), partition(1, 0, 100, ITEMS), partition(2, 0, 7, None)),
        observed("small", partition(0, 0, 50, ITEMS), **theirs),
    ]
    group_store.store_groups(connection, "c1", rows, AT)
    found: list[GroupRow] = []
    while page := every(
        connection, by_lag=True, tenants=["globex"], limit=1, after=found[-1].key if found else None
    ):
        found += page
    assert [(row.group, row.lag_records) for row in found] == [
        ("large", 500), ("shared", 100), ("small", 50), ("unknown", None),
    ]  # fmt: skip
    own = every(connection, by_lag=True, tenants=["acme"])
    assert [(row.group, row.lag_records) for row in own] == [("shared", 9_100), ("hidden", 70)]
    for name in ("acme-retail-prod-hidden", "acme-retail-prod-nobody"):
        with pytest.raises(NotFound, match=f"'{name}' on 'c1' is gone"):
            every(connection, by_lag=True, tenants=["globex"], after=("c1", name))


def test_a_code_is_that_of_the_part_which_the_tenant_sees(connection: Connection) -> None:
    fine = partition(0, 100, 100, time_lag_ms=0, member="m-7")
    bad = partition(1, 0, 50, ITEMS, member="m-7", **LAGGING)
    group_store.store_groups(connection, "c1", [observed("g", fine, bad, place=None, group=None)], AT)
    for tenant, code in (("acme", "in-time"), ("globex", "slower-than-producers")):
        for wanted in ("in-time", "slower-than-producers"):
            found = list_summaries(connection, GroupsWanted(tenants=[tenant], code=wanted, limit=1))
            assert [row.diagnosis.code for row in found] == ([code] if code == wanted else [])


def test_groups_of_an_environment_that_a_switch_holds_are_paused(connection: Connection) -> None:
    left = observed("left", partition(0, 0, 5), members=[], state="Empty")
    nameless = observed("nameless", partition(0, 0, 5), place=None, group=None, members=[], state="Empty")
    group_store.store_groups(connection, "c1", [left, nameless], AT)
    held = {("c1", "acme/retail/prod"): "s-1"}
    assert names(every(connection, code="no-members", holding=held)) == ["nameless"]
    (row,) = every(connection, code="paused-by-switch", holding=held)
    assert (row.group, row.diagnosis.code) == ("left", "paused-by-switch") and "switch s-1" in row.diagnosis.text
    assert every(connection, code="paused-by-switch") == []


def test_a_tenant_learns_nothing_of_a_switch_that_holds_anothers_group(connection: Connection) -> None:
    left = partition(1, 0, 50, ITEMS)
    group_store.store_groups(connection, "c1", [observed("g", partition(), left, members=[], state="Empty")], AT)
    held = {("c1", "acme/retail/prod"): "s-1"}
    for tenant, code in (("acme", "paused-by-switch"), ("globex", "no-members")):
        for wanted in (None, "paused-by-switch", "no-members"):
            found = every(connection, tenants=[tenant], code=wanted, holding=held)
            assert [row.diagnosis.code for row in found] == ([code] if wanted in (None, code) else [])
            assert ["s-1" in row.diagnosis.text for row in found] == [tenant == "acme"] * len(found)
            light = GroupsWanted(tenants=[tenant], code=wanted, holding=held, limit=9)
            assert list_summaries(connection, light) == found


def test_ten_thousand_groups_are_paged_in_either_order(connection: Connection) -> None:
    rows = [
        observed(f"g{number:05}", partition(0, 0, number % 97), members=[member(number % 9)])
        for number in range(10_000)
    ]
    group_store.store_groups(connection, "c1", rows, AT)
    for by_lag in (False, True):
        found: list[GroupSummary] = []
        while page := list_summaries(
            connection,
            GroupsWanted(by_lag=by_lag, after=found[-1].key if found else None, limit=2_500, tenants=["acme"]),
        ):
            found += page
        assert len({row.key for row in found}) == len(found) == 10_000
        order = [-(row.lag_records or 0) for row in found] if by_lag else [row.technical_group for row in found]
        assert order == sorted(order)
    with pytest.raises(NotFound, match="is gone"):
        list_groups(connection, GroupsWanted(by_lag=True, after=("c1", "gone"), limit=1))
    group_store.store_groups(connection, "c1", [], AT, unchanged=[row.technical_group for row in rows[:7_000]])
    assert connection.execute(sa.select(sa.func.count()).select_from(observed_groups)).scalar_one() == 7_000
