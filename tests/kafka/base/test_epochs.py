"""The truncation point of a log, found by the leader epochs of its records."""

from __future__ import annotations

import uuid

import pytest

from backend.kafka.copy import epochs
from tests.support.kafka.topics import create_topic, produce

BEFORE_ALL = -2


@pytest.fixture
def topic(estate):
    servers, name = estate.bootstrap_servers("cluster-1"), f"epochs.{uuid.uuid4().hex[:8]}"
    create_topic(servers, name, 1)
    produce(servers, name, [{"value": b"%d" % n, "partition": 0} for n in range(20)])
    return {"bootstrap.servers": servers, "group.id": name}, (name, 0)


def test_a_log_of_one_epoch_was_not_cut(topic):
    config, place = topic
    newest = 1000
    assert epochs.first_born_after(config, place, (0, 20), newest) == 20
    assert epochs.first_born_after(config, place, (0, 0), newest) == 0


def test_records_of_a_later_epoch_begin_where_the_first_of_them_is(topic):
    config, place = topic
    assert epochs.first_born_after(config, place, (0, 20), BEFORE_ALL) == 0
    assert epochs.first_born_after(config, place, (7, 20), BEFORE_ALL) == 7


def test_without_an_epoch_the_end_is_taken(topic):
    config, place = topic
    assert epochs.first_born_after(config, place, (0, 20), epochs.UNKNOWN_EPOCH) == 20
