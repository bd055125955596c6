"""Figures of a stream: sums that are known only as a whole, rates from two observations, and what differs."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from backend.cluster_requests import stream_figures
from backend.cluster_requests.stream_figures import FiguresPlace, FiguresReader
from backend.domain.base.errors import ClusterUnreachable, MessagesBusy
from backend.domain.topics.stream_figures import (
    Ends,
    PartitionFigures,
    TopicFigures,
    findings,
    rate_between,
)
from backend.kafka.base.errors import KafkaCallFailed
from backend.web.tenants.stream_figures_view import FiguresView


def partition(number: int = 0, **changed: Any) -> PartitionFigures:
    usual = PartitionFigures(
        partition=number,
        leader=1,
        replicas=(1, 2),
        isr=(1, 2),
        start_offset=10,
        end_offset=25,
        size_bytes=100,
        disk_bytes=200,
        newest_ms=7,
    )
    return replace(usual, **changed)


def topic(*partitions: PartitionFigures, **changed: Any) -> TopicFigures:
    return replace(TopicFigures(topic_id="t", partitions=partitions), **changed)


def test_sums_are_known_only_if_each_partition_is() -> None:
    whole = topic(partition(0), partition(1, start_offset=0, end_offset=0, newest_ms=None))
    assert (whole.records, whole.size_bytes, whole.disk_bytes, whole.newest_ms) == (15, 200, 400, 7)
    part = topic(partition(0), partition(1, end_offset=None, disk_bytes=None))
    assert (part.records, part.size_bytes, part.disk_bytes) == (None, 200, None)
    assert part.ends == {0: 25}


@pytest.mark.parametrize(
    ("changed", "in_sync"),
    [({}, True), ({"isr": (1,)}, False), ({"leader": None}, False), ({"isr": ()}, False)],
)
def test_a_partition_is_in_sync_with_a_leader_and_all_replicas(changed: dict[str, Any], in_sync: bool) -> None:
    assert topic(partition(**changed)).in_sync == int(in_sync)


def ends(at: float, topic_id: str = "t", **offsets: int) -> Ends:
    return Ends(at_seconds=at, topic_id=topic_id, ends={int(name[1:]): end for name, end in offsets.items()})


@pytest.mark.parametrize(
    ("before", "now", "rate"),
    [
        (ends(100.0, p0=10, p1=0), ends(110.0, p0=60, p1=50), 10.0),
        (ends(100.0, p0=10), ends(105.0, p0=10), 0.0),
        (None, ends(105.0, p0=10), None),
        (ends(100.0, p0=10), ends(100.5, p0=90), None),  # too near: a single batch would decide it
        (ends(100.0, p0=10), ends(1_000.0, p0=90), None),
        (ends(100.0, p0=10), ends(110.0, p0=9), None),  # truncated
        (ends(100.0, "old", p0=10), ends(110.0, p0=90), None),
        (ends(100.0, p0=10), ends(110.0, p0=90, p1=5), None),
        (ends(100.0), ends(110.0), None),
    ],
)
def test_a_rate_needs_two_observations_of_the_same_logs(
    before: Ends | None, now: Ends, rate: float | None
) -> None:
    found = rate_between(before, now)
    assert (found and found.records_per_second) == rate


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"c1": partition(), "c2": partition()}, []),
        ({"c1": partition(), "c2": None}, ["partition 0 is missing on c2"]),
        ({"c1": partition(leader=None)}, ["no leader on c1: it can be neither read nor written there"]),
        ({"c1": partition(isr=(2,))}, ["1 of 2 replicas in sync on c1"]),
        ({"c1": partition(), "c2": partition(start_offset=13)}, ["c2 holds 3 offsets fewer than c1"]),
        ({"c1": partition(), "c2": partition(end_offset=None)}, []),
    ],
)
def test_what_differs_between_clusters_is_said(found: dict[str, Any], said: list[str]) -> None:
    assert findings(0, found) == said


# --- the reader


def place(cluster: str, absent: str = "") -> FiguresPlace:
    return FiguresPlace(cluster=cluster, topic="orders", bootstrap_servers=cluster, properties={}, absent=absent)


PLACES = [place("c1"), place("c2"), place("c3"), place("c4", "c4 is offline"), place("c5")]


def answer(servers: str, *_: object) -> TopicFigures | None:
    match servers:
        case "c1":
            return topic(partition())
        case "c2":
            raise KafkaCallFailed("timed out after 5 s")
        case "c3":
            raise ClusterUnreachable("secret ${env:C3} is not set")
        case "c5":
            return None
    raise AssertionError(f"{servers} must not be asked")


def test_a_cluster_that_does_not_answer_is_named_and_the_others_are_shown() -> None:
    found = FiguresReader(5, answer).read("ann", "a/b/c/orders", PLACES)
    assert [each.figures is not None for each in found] == [True, False, False, False, False]
    assert [each.problem for each in found[1:]] == [
        "c2 does not answer (timed out after 5 s)",
        "c3 cannot be reached",
        "c4 is offline",
        "c5 has no topic of this stream: it was deleted there",
    ]
    seen = FiguresView(found=found, sees_brokers=False, main="c9")
    assert seen.problems[1].sentence == "c3 cannot be reached."
    whole = replace(seen, sees_brokers=True)
    assert whole.problems[1].sentence == "c3 cannot be reached: secret ${env:C3} is not set."
    assert seen.first is not None and seen.first.cluster == "c1"


def test_reloads_share_an_answer_and_the_next_one_has_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [100.0], []

    def read(*_: object) -> TopicFigures:
        asked.append(now[0])
        return topic(partition(end_offset=25 + 40 * len(asked)))

    shared = FiguresReader(5, read, lambda: now[0])
    assert shared.read("ann", "s", [place("c1")]) is shared.read("ann", "s", [place("c1")])
    assert len(asked) == 1
    monkeypatch.setattr(stream_figures, "KEPT_SECONDS", -1.0)
    reader = FiguresReader(5, read, lambda: now[0])
    assert reader.read("ann", "s", [place("c1")])[0].rate is None
    now[0] += 20
    rate = reader.read("ann", "s", [place("c1")])[0].rate
    assert rate is not None and (rate.records_per_second, rate.over_seconds) == (2.0, 20.0)
    assert reader.read("ann", "other", [place("c1")])[0].rate is None


def test_a_process_asks_for_few_streams_and_clusters_at_once() -> None:
    begun, threads = threading.Barrier(stream_figures.OF_A_USER + 1), threading.Semaphore(0)
    asking: set[int] = set()

    def read(servers: str, *_: object) -> TopicFigures:
        if servers == "many":
            asking.add(threading.get_ident())
        elif servers == "slow":
            begun.wait(20)
            threads.acquire()
        return topic(partition())

    reader = FiguresReader(5, read)
    busy = [
        threading.Thread(target=reader.read, args=("ann", f"s{number}", [place("slow")]))
        for number in range(stream_figures.OF_A_USER)
    ]
    for each in busy:
        each.start()
    begun.wait(20)
    with pytest.raises(MessagesBusy, match="3 of your requests are reading figures of streams already"):
        reader.read("ann", "another", [place("c1")])
    assert reader.read("bob", "another", [place("c1")])[0].figures is not None, "others are not held up"
    threads.release(len(busy))
    for each in busy:
        each.join(20)
    found = reader.read("ann", "wide", [place("many") for _ in range(60)])
    assert len(found) == 60 and len(asking) <= stream_figures.CLUSTERS_AT_ONCE


def test_pages_of_partitions_have_a_limited_number_of_rows() -> None:
    many = topic(*(partition(number) for number in range(200)))

    def read(*_: object) -> TopicFigures:
        return many

    places = [place(f"c{number}") for number in range(40)]
    seen = FiguresView(found=FiguresReader(5, read).read("ann", "s", places), sees_brokers=True, main=None)
    shown = seen.partitions(0)
    assert sum(len(each.lines) for each in shown) == 1_000 and [each.number for each in shown][-1] == 24
    assert [each.number for each in seen.partitions(190, "c7")] == list(range(190, 200))
    assert seen.partitions(200) == []
