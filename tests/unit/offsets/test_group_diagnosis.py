"""Sentences that say why a group lags."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.offsets.group_diagnosis import CODES, GroupFacts, clock, diagnose, duration, paused, rate
from backend.domain.offsets.observed_group import GroupPartition, sums
from tests.support.api.observed_groups import AT_MS, member, partition

MINUTE = 60_000
FACTS = GroupFacts(
    state="Stable", state_since_ms=AT_MS - 60 * MINUTE, has_members=True, members=[member()], partitions=[]
)
OWNED = {"member": "m-7", "time_lag_ms": 5 * MINUTE, "moved_at_ms": AT_MS - MINUTE}
SLOW = {**OWNED, "records_per_second": 120.0, "produced_per_second": 300.0}
STILL = {**OWNED, "moved_at_ms": AT_MS - 12 * MINUTE, "time_lag_ms": 12 * MINUTE, "records_per_second": 0.0}
EMPTY = {"state": "Empty", "has_members": False, "members": []}

FRESH = [partition(time_lag_ms=2_000, member="m-7")]
WAITING = [partition(0, 0, 1_204)]

CASES = [
    ("in-time", "In time: no records wait.", {}, [partition(0, 9, 9)]),
    ("in-time", "In time: no records wait, and the group has no members.", EMPTY, [partition(0, 9, 9)]),
    ("in-time", "In time: at most 2 s behind, with 10 records to read.", {}, FRESH),
    ("no-members", "No members since 13:02 UTC: nobody reads, and 1,204 records wait.", EMPTY, WAITING),
    ("no-members", "No members since 13:02 UTC: nobody reads, and 1 record waits.", EMPTY, [partition(0, 0, 1)]),
    (
        "catching-up",
        "Catching up: it reads 8 records/s, 0 records/s are written, and 10 records wait, for about 1 s.",
        EMPTY, [partition(time_lag_ms=MINUTE, records_per_second=8.0, produced_per_second=0.0)],
    ),
    (
        "slower-than-producers",
        "Slower than its producers: it reads 120 records/s, 300 records/s are written, and 10 records wait.",
        {}, [partition(**SLOW)],
    ),
    (
        "slower-than-producers",
        "No faster than its producers: it reads the 300 records/s that are written, so 10 records stay unread.",
        {}, [partition(**{**SLOW, "records_per_second": 300.0})],
    ),
    (
        "slower-than-producers", "It reads nothing at present, 300 records/s are written, and 10 records wait.",
        {}, [partition(**{**SLOW, "records_per_second": 0.0})],
    ),
    (
        "catching-up",
        "Catching up: it reads 400 records/s, 300 records/s are written, and 60,000 records wait, for about "
        "10 min.",
        {}, [partition(0, 0, 60_000, **{**SLOW, "records_per_second": 400.0})],
    ),
    (
        "partition-stalled",
        "Partition 3 of orders has not moved for 12 min, since 13:50 UTC; its owner is client-7 on 10.1.2.7.",
        {}, [partition(3, **STILL)],
    ),
    (
        "partition-stalled",
        "Partition 3 of orders has not moved for 12 min, since 13:50 UTC (and 2 more partitions); its owner is "
        "client-7 on 10.1.2.7.",
        {}, [partition(number, **STILL) for number in (3, 4, 5)],
    ),
    (
        "partition-stalled", "Partition 3 of orders has not moved for 12 min, since 13:50 UTC.",
        {"members": []}, [partition(3, **STILL)],
    ),
    (
        "in-time", "In time: at most 15 s behind, with 10 records to read.",
        {}, [partition(3, **{**STILL, "time_lag_ms": 15_000})],
    ),
    (
        "partition-stalled", "Partition 3 of orders has not moved for 11 min, since 13:51 UTC.",
        {"members": []}, [partition(3, **{**STILL, "time_lag_ms": None, "time_lag_at_least_ms": 11 * MINUTE})],
    ),
    (
        "rebalancing", "Rebalancing for 3 min: its members wait for partitions, and 10 records wait.",
        {"state": "PreparingRebalance", "state_since_ms": AT_MS - 3 * MINUTE}, [partition()],
    ),
    (
        "slower-than-producers",
        "Slower than its producers: it reads 120 records/s, 300 records/s are written, and 10 records wait.",
        {"state": "CompletingRebalance", "state_since_ms": AT_MS - 3_000}, [partition(**{**SLOW, "member": None})],
    ),
    (
        "unassigned", "No member owns partition 2 of orders, where 10 records wait.",
        {}, [partition(1, **SLOW), partition(2, records_per_second=0.0)],
    ),
    (
        "never-committed",
        "The group has never committed an offset for 1 of its 2 partitions, first partition 1 of orders, so the "
        "lag there is not known.",
        {}, [partition(0, 9, 9), partition(1, None, 9, member="m-7")],
    ),
    ("in-time", "In time: no records wait.", {}, [partition(0, 9, 9), partition(1, None, 0, member="m-7")]),
    (
        "beyond-end",
        "The committed offset 500 of partition 0 of orders lies beyond the log's end 20: the topic was created "
        "anew or its log was truncated.",
        {}, [partition(0, 500, 20)],
    ),
    (
        "not-observed", "Not observed: its coordinator is starting or moving to another broker.",
        {"reason": "its coordinator is starting or moving to another broker"}, [],
    ),
    (
        "not-observed", "Not observed: the cluster does not report the group's state.", {"state": "Unknown"}, [],
    ),
    (
        "not-observed", "Not observed for long enough: 10 records wait; rates need a second observation.",
        {}, [partition(**OWNED)],
    ),
    (
        "not-observed", "The log's end of partition 0 of orders could not be read, so the lag is not known.",
        {}, [partition(0, 5, None, member="m-7")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "fields", "partitions"), CASES)
def test_a_sentence(code: str, text: str, fields: dict[str, object], partitions: list[GroupPartition]) -> None:
    found = diagnose(replace(FACTS, partitions=partitions, **fields), AT_MS)
    assert (found.code, found.text) == (code, text)


def test_every_code_has_a_case() -> None:
    held = paused(1_204, "s-7")
    assert held.text == "Paused by switch s-7: it holds the clients of the environment, and 1,204 records wait."
    assert {code for code, *_ in CASES} | {held.code} == set(CODES)


OFFSETS = st.none() | st.integers(0, 2**63 - 1)
RATES = st.none() | st.floats(0, 1e9)
TIMES = st.none() | st.integers(0, 2**40)
PARTITIONS = st.builds(
    partition,
    number=st.integers(0, 9),
    committed=OFFSETS,
    end=OFFSETS,
    records_per_second=RATES,
    produced_per_second=RATES,
    time_lag_ms=TIMES,
    time_lag_at_least_ms=TIMES,
    moved_at_ms=TIMES,
    member=st.sampled_from([None, "m-7", "m-8"]),
)


@given(
    st.lists(PARTITIONS, max_size=5),
    st.sampled_from(["Stable", "Empty", "Dead", "PreparingRebalance", "Reconciling", "Unknown", "Assigning"]),
    st.booleans(),
    TIMES,
)
def test_every_group_has_a_diagnosis(
    partitions: list[GroupPartition], state: str, has_members: bool, since_ms: int | None
) -> None:
    facts = GroupFacts(
        state=state,
        state_since_ms=since_ms,
        has_members=has_members,
        members=[member()] if has_members else [],
        partitions=partitions,
    )
    found = diagnose(facts, AT_MS)
    assert found.code in CODES
    assert (
        found.text.endswith(".")
        and "None" not in found.text
        and "-" not in found.text.partition(" records")[0][-3:]
    )
    lag = sums(partitions).lag_records
    assert lag is None or lag >= 0


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (1_400, "1 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_140_000, "119 min"),
        (7_200_000, "2 h"),
        (9_000_000, "2 h 30 min"),
        (864_000_000, "10 days"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_times_and_rates() -> None:
    assert clock(AT_MS, AT_MS) == "14:02 UTC"
    assert clock(AT_MS - 24 * 60 * MINUTE, AT_MS) == "2026-11-27 14:02 UTC"
    assert [rate(each) for each in (0.0, 0.123, 9.96, 12_345.6)] == [
        "0 records/s",
        "0.12 records/s",
        "10 records/s",
        "12,346 records/s",
    ]
