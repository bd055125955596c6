"""Logs for tests of message reading, walks over their pages, and what such a walk has to give."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.kafka.logs import log_ends
from backend.kafka.search.message_reading import (
    After,
    Before,
    Bounds,
    Earliest,
    EndedBy,
    Newest,
    Selected,
    read_messages,
)
from backend.kafka.search.topic_reader import TopicPlace
from tests.eventually import eventually
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce

BASE = 1_700_000_000_000
BOUNDS = Bounds(120.0, 1_000_000, 1_000_000_000)
WAYS = pytest.mark.parametrize("start", [Earliest(), Newest()], ids=["forward", "backward"])


def made(servers, partitions=1, **config):
    """Return all partitions of a new topic."""
    name = f"messages.{uuid.uuid4().hex[:8]}"
    create_topic(servers, name, partitions, **config)
    return TopicPlace(servers, {}, name, tuple(range(partitions)))


def write(place, records, **config):
    """Write (partition, timestamp, value) in this order."""
    rows = [{"partition": p, "timestamp": ms, "value": value} for p, ms, value in records]
    produce(place.bootstrap_servers, place.topic, rows, **config)


def everything(messages):
    return [Selected(message, None) for message in messages]


def some(messages):
    return [Selected(message, None) for message in messages if message.value().endswith(b"7")]


def sevens(messages):
    return [each.message for each in some(messages)]


def place_of(message):
    return message.partition(), message.offset()


def places(pages):
    return [place_of(each.message) for page in pages for each in page.found]


def walk(place, start, limit, select=everything, bounds=BOUNDS, *, is_search=False, passing=None):
    """Return all pages up to the last one; each has to move."""
    pages, seen = [], []
    while True:
        page = read_messages(place, start, limit, bounds, select, is_search=is_search, passing=passing)
        pages.append(page)
        if page.after is None:
            assert page.ended_by is EndedBy.END
            return pages
        assert page.after not in seen, "a page that does not move is asked for without end"
        assert page.ended_by is not EndedBy.END
        seen.append(page.after)
        start = (Before if page.backward else After)(page.after)


def in_order(messages, *, backward):
    """Return the places of messages in the order that is wanted, found in the simplest way."""
    logs: dict[int, list] = {}
    for message in messages:
        logs.setdefault(message.partition(), []).append(message)
    for log in logs.values():
        log.sort(key=place_of, reverse=not backward)  # the next one is the last
    found = []
    while any(logs.values()):
        following = [log[-1] for log in logs.values() if log]
        sign = -1 if backward else 1
        first = min(following, key=lambda each: (sign * each.timestamp()[1], each.partition()))
        found.append(place_of(logs[first.partition()].pop()))
    return found


class Transactions:
    """Writer of transactions to the partitions of a topic."""

    def __init__(self, place):
        self._place = place
        self._ends = Counter(dict.fromkeys(place.partitions, 0))
        name = f"test.{uuid.uuid4().hex}"
        self._producer = Producer({"bootstrap.servers": place.bootstrap_servers, "transactional.id": name})
        self._producer.init_transactions(DEADLINE_SECONDS)

    def write(self, partition, count, *, committed):
        self._producer.begin_transaction()
        first = self._ends[partition]
        for n in range(first, first + count):
            self._producer.produce(self._place.topic, b"%d" % n, partition=partition, timestamp=BASE + n)
        self._producer.flush(DEADLINE_SECONDS)  # otherwise an abort may forget records that were never sent
        if committed:
            self._producer.commit_transaction(DEADLINE_SECONDS)
        else:
            self._producer.abort_transaction(DEADLINE_SECONDS)
        self._ends[partition] += count + 1  # with the marker

    def settle(self):
        """Wait for the last markers, which are written after the producer has its answer."""
        config = {"bootstrap.servers": self._place.bootstrap_servers}
        wanted = {(self._place.topic, partition): (0, end) for partition, end in self._ends.items()}
        eventually(
            lambda: log_ends.ends(config, wanted, DEADLINE_SECONDS) == wanted,
            "all transactions are decided",
        )


def deleted_below(place, partition, offset):
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    (answer,) = admin.delete_records([TopicPartition(place.topic, partition, offset)]).values()
    answer.result(DEADLINE_SECONDS)
