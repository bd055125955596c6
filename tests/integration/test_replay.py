"""Replay of a dead-lettered record, on real brokers: as it was read, where it is missing, and once."""

from __future__ import annotations

import uuid
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.copy import quarantine
from backend.queries.distribution.edge_losses import SetAsideRow
from backend.tracing import run
from backend.tracing.replay import Replay, replay
from tests.integration.test_trace import STREAM, known, rest
from tests.kafka import create_topic, produce, read_all

__all__ = ["known", "rest"]

TARGET, PARTITION = "cluster-4", 3


def test_a_record_is_written_where_it_is_missing_as_it_was_read_and_once(known, estate, database):
    """Return a scene in which a topic without the record stands for a target that refused it."""
    scene, offset = known
    mark = uuid.uuid4().hex[:8]
    topic, aside, servers = f"lacks.{mark}", f"aside.{mark}", estate.bootstrap_servers(TARGET)
    create_topic(servers, topic, PARTITION + 1)
    quarantine.ensure_topic(AdminClient({"bootstrap.servers": servers}), aside)
    scene = replace(scene, places={**scene.places, TARGET: replace(scene.places[TARGET], topic=topic)})
    number = scene.clusters["cluster-1"]
    born = Origin(number, scene.stream_id, PARTITION, offset, 1)
    row = SetAsideRow(
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
    (flags,) = [edge.flags for edge in scene.route(number) if edge.target == TARGET]
    headers = [("h", b"1"), ("copy-flags", copy_flags.encode(flags)), ("copy-origin", origin.encode(born))]
    time_ms = run.run(scene, "cluster-1", offset).origin.timestamp_ms
    kept = {"value": b"traced", "key": b"k", "timestamp": time_ms}
    produce(servers, aside, [{**kept, "headers": [*headers, (quarantine.ID_HEADER, row.id.encode())]}])

    def replayed(**how):
        return replay(database.engine, scene, row, {}, 1, aside, **how)

    assert replayed(dry_run=True) == Replay((TARGET,), {})
    assert read_all(servers, topic) == []
    assert replayed() == Replay((TARGET,), {})
    (copy,) = read_all(servers, topic)
    assert (copy.value(), copy.key(), copy.partition(), copy.timestamp()[1]) == (b"traced", b"k", 3, time_ms)
    assert copy.headers() == headers
    assert replayed() == Replay((), {})
    assert len(read_all(servers, topic)) == 1
