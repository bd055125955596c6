"""Replay of a dead-lettered record, on real brokers: as it was read, where it is missing, and once."""

from __future__ import annotations

import uuid
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from backend.cluster_requests import tracing
from backend.cluster_requests.replay import Replay, replay
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.copy import dead_letter_topic
from backend.queries.distribution.edge_losses import DeadLetterRow
from tests.kafka.distribution.test_trace import STREAM, known, rest
from tests.support.kafka.topics import create_topic, produce, read_all

__all__ = ["known", "rest"]

TARGET, PARTITION = "cluster-4", 3


def test_a_record_is_written_where_it_is_missing_as_it_was_read_and_once(known, estate, database):
    """A topic without the record stands for a target that refused it."""
    facts, offset = known
    mark = uuid.uuid4().hex[:8]
    topic, aside, servers = f"lacks.{mark}", f"aside.{mark}", estate.bootstrap_servers(TARGET)
    create_topic(servers, topic, PARTITION + 1)
    dead_letter_topic.ensure_topic(AdminClient({"bootstrap.servers": servers}), aside)
    facts = replace(facts, places={**facts.places, TARGET: replace(facts.places[TARGET], topic=topic)})
    number = facts.clusters["cluster-1"]
    born = Origin(number, facts.stream_id, PARTITION, offset, 1)
    row = DeadLetterRow(
        id=f"refused-{mark}",
        cluster="cluster-1",
        level=3,
        target=TARGET,
        stream=STREAM,
        partition=PARTITION,
        offset=offset,
        origin=(number, born.incarnation, offset),
        reason="it was too large",
        replayed=False,
        recorded=1,
    )
    (flags,) = [edge.flags for edge in facts.route(number) if edge.target == TARGET]
    headers = [("h", b"1"), ("copy-flags", copy_flags.encode(flags)), ("copy-origin", origin.encode(born))]
    time_ms = tracing.run(facts, "cluster-1", offset).origin.timestamp_ms
    kept = {"value": b"traced", "key": b"k", "timestamp": time_ms}
    produce(servers, aside, [{**kept, "headers": [*headers, (dead_letter_topic.ID_HEADER, row.id.encode())]}])

    def replayed(**how):
        return replay(database.engine, facts, row, {}, 1, aside, **how)

    assert replayed(dry_run=True) == Replay((TARGET,), {})
    assert read_all(servers, topic) == []
    assert replayed() == Replay((TARGET,), {})
    (copy,) = read_all(servers, topic)
    assert (copy.value(), copy.key(), copy.partition(), copy.timestamp()[1]) == (b"traced", b"k", 3, time_ms)
    assert copy.headers() == headers
    assert replayed() == Replay((), {})
    assert len(read_all(servers, topic)) == 1
