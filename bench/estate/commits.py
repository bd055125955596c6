"""Time from a commit until it is applied on every other cluster, by the brokers' own timestamps.

Groups commit in turn on one cluster while records are produced there. The offsets that their committers set on the
other clusters are read from `__consumer_offsets` afterwards: the metadata names the commit, and both times are the
brokers' (one machine, one clock). A commit that was overtaken by a later one of its group counts until that one is
applied.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from backend.domain.offsets import commit_metadata, group_log
from backend.kafka.base.client_config import client_config
from backend.kafka.logs.log_ends import ends, partitions
from backend.kafka.logs.log_ranges import LogRange, messages

GROUPS, COMMITS_PER_SECOND, SECONDS = 200, 40, 60
RECORDS_PER_SECOND = 400
"""Produced in one burst each second."""
SOURCE, STREAM, PARTITIONS = "cluster-1", "acme-retail-prod-orders", 4
_SETTLE_SECONDS = 40.0
_PREFIX = "acme-retail-prod-bench"


@dataclass(frozen=True)
class Applied:
    """Milliseconds from each commit until it was applied on a cluster, sorted."""

    milliseconds: list[int]
    missing: int
    """Commits that were not applied on some cluster."""

    def at(self, share: float) -> float:
        """Return the seconds that this share of the commits did not exceed."""
        return self.milliseconds[min(int(len(self.milliseconds) * share), len(self.milliseconds) - 1)] / 1000

    @property
    def median(self) -> float:
        """Return the median in seconds."""
        return statistics.median(self.milliseconds) / 1000


def measure(servers: Mapping[str, str]) -> Applied:
    """Commit for a while, wait, and return the results."""
    # The translation session begins with the first commit.
    _commit(servers[SOURCE], 1)
    time.sleep(_SETTLE_SECONDS)
    began = int(time.time() * 1000)
    _commit(servers[SOURCE], SECONDS)
    time.sleep(_SETTLE_SECONDS)
    made: dict[tuple[str, int], list[int]] = {}
    for group, partition, value in _offsets(servers[SOURCE]):
        if not commit_metadata.is_ours(value.metadata) and value.committed_at_ms >= began:
            made.setdefault((group, partition), []).append(value.committed_at_ms)
    found: list[int] = []
    missing = 0
    for cluster in servers.keys() - {SOURCE}:
        done: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for group, partition, value in _offsets(servers[cluster]):
            mark = commit_metadata.decode(value.metadata)
            if mark is not None:
                done.setdefault((group, partition), []).append((mark.committed_at_ms, value.committed_at_ms))
        for place, times in made.items():
            for at in times:
                applied = [when for of, when in done.get(place, []) if of >= at]
                missing += not applied
                found += [min(applied) - at] if applied else []
    return Applied(sorted(found), missing)


def _commit(servers: str, seconds: float) -> None:
    """Commit at a fixed rate, each group in turn and with rising offsets."""
    members = [
        Consumer({"bootstrap.servers": servers, "group.id": f"{_PREFIX}{n}", "enable.auto.commit": False})
        for n in range(GROUPS)
    ]
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    began = time.monotonic()
    for number in range(int(seconds * COMMITS_PER_SECOND)):
        ahead = began + number / COMMITS_PER_SECOND - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        partition = number % PARTITIONS
        if number % COMMITS_PER_SECOND == 0:
            for each in range(RECORDS_PER_SECOND):
                producer.produce(STREAM, os.urandom(200), partition=each % PARTITIONS)
        producer.poll(0)
        at = TopicPartition(STREAM, partition, number // PARTITIONS * 10)
        members[number % GROUPS].commit(offsets=[at], asynchronous=True)
    producer.flush(10)
    for member in members:
        member.close()


def _offsets(servers: str) -> list[tuple[str, int, group_log.OffsetValue]]:
    """Return all commits of the bench's groups: (group's own name, partition, value), in the log's order."""
    config = client_config(servers, {})
    places = partitions(config, group_log.INTERNAL_TOPIC, 15)
    ranges = [
        LogRange(log=number, topic=topic, partition=number, first=low, end=high)
        for (topic, number), (low, high) in ends(config, places, 15).items()
    ]
    found = []
    for _, some in messages(config, ranges):
        for message in some:
            try:
                record = group_log.offset_record(message.key(), message.value())
            except group_log.Unreadable:
                continue
            whose, what = record or (None, None)
            if whose is not None and what is not None and "-bench" in whose.group:
                found.append((whose.group.rsplit("-", 1)[1], whose.partition, what))
    return found
