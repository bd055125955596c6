"""The progress report of a drain stays small, however many partitions it waits for."""

from __future__ import annotations

import json
from collections.abc import Iterable

from workers.switches.drain import Drained, PartitionDrain
from workers.switches.lacking import NAMED, drain_progress


def lacks(
    stream: str, partition: int, records: int, target: str = "c2", waits_for: str | None = None
) -> PartitionDrain:
    return PartitionDrain(
        stream=stream,
        partition=partition,
        target=target,
        is_covered=False,
        missing_records=records,
        waits_for=waits_for,
    )


def covered(stream: str, partition: int) -> PartitionDrain:
    return PartitionDrain(stream=stream, partition=partition, target="c2", is_covered=True, missing_records=0)


def named(partitions: Iterable[PartitionDrain]) -> list[tuple[str, int, str, int]]:
    told = drain_progress(Drained(partitions=tuple(partitions)))
    return [
        (each["stream"], each["partition"], each["target"], each["missing_records"]) for each in told["lacking"]
    ]


def test_those_that_lack_most_come_first_and_those_that_lack_nothing_not_at_all():
    found = [lacks("b", 0, 5), covered("a", 0), lacks("a", 2, 5), lacks("a", 1, 70, "c3"), lacks("a", 1, 5, "c3")]
    assert named(found) == [("a", 1, "c3", 70), ("a", 1, "c3", 5), ("a", 2, "c2", 5), ("b", 0, "c2", 5)]


def test_one_that_nothing_can_be_told_of_yet_is_left_and_says_why():
    (one,) = drain_progress(Drained(partitions=(lacks("a", 0, 0, waits_for="transactions"),)))["lacking"]
    assert (one["missing_records"], one["waits_for"]) == (0, "transactions")


def test_where_nothing_is_left_nothing_is_named():
    told = drain_progress(Drained(partitions=(covered("a", 0), covered("a", 1))))
    assert told == {"missing_records": 0, "left": 0, "lacking": []}


def test_of_very_many_the_worst_are_named_and_all_are_counted():
    stream = f"{'t' * 60}/{'i' * 60}/{'e' * 60}/{'s' * 60}"
    told = drain_progress(Drained(partitions=tuple(lacks(stream, number, number) for number in range(100_000))))
    assert [each["partition"] for each in told["lacking"]] == [99_999 - place for place in range(NAMED)]
    assert (told["left"], told["missing_records"]) == (100_000, sum(range(100_000)))
    assert len(json.dumps(told)) < 10_000, "bytes of a row that is written four times a second"
