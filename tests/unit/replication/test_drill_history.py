"""The controller's log, parsed from lines as Kafka's tool writes them; and gaps between acknowledgements."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.support.drills.clock import Clock
from tests.support.drills.drill import gaps
from tests.support.drills.faults import Done, Fault
from tests.support.drills.history import Seen, history_of

OURS, OTHER = "WkcmlG-vTSqCh1WnDMvKvg", "YTMHHFGzQwqgOflmpqghSQ"


class Still(Clock):
    """Takes the time of day for the drill's."""

    def of_day(self, epoch_ms: float) -> float:
        return epoch_ms


def line(index: int, kind: str, **data: Any) -> str:
    payload = json.dumps({"type": kind, "version": 0, "data": data}, separators=(",", ":"))
    head = f"| offset: {index} CreateTime: {1000 + index} keySize: -1 valueSize: 41 sequence: -1 headerKeys: []"
    return f"{head} payload: {payload}"


def change(index: int, topic: str = OURS, **data: Any) -> str:
    return line(index, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=topic, **data)


LINES = [
    "Dumping /data/__cluster_metadata-0/00000000000000000000.log",
    "Log starting offset: 0",
    "baseOffset: 1 lastOffset: 7 count: 7 position: 91 CreateTime: 1001 size: 274 magic: 2 isvalid: true",
    line(1, "REGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=1, fenced=True),
    line(2, "TOPIC_RECORD", name="other", topicId=OTHER),
    line(3, "TOPIC_RECORD", name="drill", topicId=OURS),
    line(4, "CLEAR_ELR_RECORD", topicName="drill"),
    line(5, "PARTITION_RECORD", partitionId=0, topicId=OURS, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1,
         leaderEpoch=0, partitionEpoch=0),
    line(6, "NO_OP_RECORD"),
    change(7, isr=[2, 3], leader=2),
    change(8, OTHER, isr=[2], leader=2),
    line(9, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, brokerEpoch=1, fenced=1),
    change(10, isr=[3], leader=3, eligibleLeaderReplicas=[2]),
    change(11, isr=[], leader=-1, eligibleLeaderReplicas=[2, 3], lastKnownElr=[3]),
    change(12, isr=[3], leader=3, eligibleLeaderReplicas=[2]),
    line(13, "CLEAR_ELR_RECORD", topicName=""),
    line(14, "REGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=13, fenced=True),
    line(15, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, brokerEpoch=13, logDirs=["x"]),
    line(16, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, brokerEpoch=13, fenced=-1),
    change(17, isr=[3, 1]),
]  # fmt: skip


def test_each_change_names_what_changed_and_a_named_leader_raises_the_epoch():
    def at(index: int, leader: int, epochs: tuple[int, int], isr: set[int], elr: set[int], last: set[int]) -> Seen:
        return Seen(index, 1000.0 + index, leader, *epochs, frozenset(isr), frozenset(elr), frozenset(last))

    assert history_of(LINES, "drill", Still()).partition == (
        at(5, 1, (0, 0), {1, 2, 3}, set(), set()),
        at(7, 2, (1, 1), {2, 3}, set(), set()),
        at(10, 3, (2, 2), {3}, {2}, set()),
        at(11, -1, (3, 3), set(), {2, 3}, {3}),
        at(12, 3, (4, 4), {3}, {2}, {3}),
        at(13, 3, (4, 4), {3}, set(), set()),
        at(17, 3, (4, 5), {1, 3}, set(), set()),
    )


def test_brokers_are_told_of_in_the_same_order_from_the_topics_creation_on():
    found = history_of(LINES, "drill", Still())
    assert [(each.index, each.broker, each.what) for each in found.brokers] == [
        (9, 1, "fenced"),
        (14, 1, "registered"),
        (16, 1, "unfenced"),
    ]
    assert [entry.index for entry in found.entries] == [5, 7, 9, 10, 11, 12, 13, 14, 16, 17]


def test_a_fault_has_the_longest_silence_that_begins_with_it_or_later_and_before_the_next():
    done = [Done(Fault(at, "pause", at), at, at) for at in (100, 1000, 3000)]
    heard = [95.0, 400.0, 500.0, 999.0, 1800.0, 2000.0, 3100.0, 3150.0]
    assert [(gap.begins_ms, gap.length_ms) for gap in gaps(done, heard)] == [
        (500.0, 499.0),
        (2000.0, 1100.0),
        (3000, 100.0),
    ]
    assert [gap.length_ms for gap in gaps(done[:1], [])] == [math.inf]
