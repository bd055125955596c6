"""Reads of positions on real clusters while transactions that change them are open."""

from __future__ import annotations

import threading
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from backend.domain.records.marks import Mark, encode_metadata
from backend.kafka.groups import positions
from tests.support.kafka.topics import create_topic


@pytest.fixture
def group(estate):
    """Yield a group that has committed position 7 and has position 9 in an open transaction."""
    servers = estate.bootstrap_servers("cluster-1")
    name = f"_treeline.test.{uuid.uuid4().hex[:8]}"
    create_topic(servers, name, 1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    member = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False})
    producer.init_transactions(10)

    def hold(offset):
        producer.begin_transaction()
        mark = encode_metadata(Mark(1, 1, {}, {1: (1, offset)}))
        row = TopicPartition(name, 0, offset, mark)
        producer.send_offsets_to_transaction([row], member.consumer_group_metadata(), 10)

    hold(7)
    producer.commit_transaction(10)
    hold(9)
    yield name, member, producer
    member.close()


def test_a_position_in_an_open_transaction_is_waited_for_not_taken_for_none(group):
    name, member, producer = group
    threading.Timer(0.5, producer.commit_transaction).start()
    found = positions.read_inbound(member, [name], None, 10.0)
    assert [mark.covered for mark in found[name, 0]] == [{1: (1, 9)}]


def test_what_an_aborted_transaction_said_is_not_read(group):
    name, member, producer = group
    threading.Timer(0.5, producer.abort_transaction).start()
    found = positions.read_inbound(member, [name], [(name, 0)], 10.0)
    assert [mark.covered for mark in found[name, 0]] == [{1: (1, 7)}]
