"""Micro-batches on a growing log of real Kafka with an index: the answers equal those of a complete read."""

from __future__ import annotations

import random
import uuid

import pytest

from backend.domain.records import log_index
from backend.kafka.base.client_config import client_config
from backend.kafka.logs.log_ends import ends
from backend.kafka.logs.log_ranges import LogRange
from spark import micro_batch
from spark.micro_batch import Answer
from spark.sources.slices import Slice
from tests.kafka.spark.test_sources import expected, origin_context
from tests.support.domain.log_marks import joined
from tests.support.kafka.topics import create_topic, produce

T0 = 1_700_000_000_000


@pytest.mark.nightly
def test_batch_after_batch_on_a_growing_log(spark, estate):
    servers, source = estate.bootstrap_servers("cluster-1"), random.Random(5)
    topic = f"grows.{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic, 2, retention_ms="-1")
    marks = []
    for count, most in ((2_500, 10**9), (10, 10**9), (4_000, 2_000), (1_300, 10**9)):
        produce(
            servers,
            topic,
            [{"value": b"x", "partition": 0, "timestamp": T0 + source.randrange(10**6)} for _ in range(count)],
        )
        ((low, end),) = ends(client_config(servers, {}), [(topic, 0)], 15).values()
        asked = {source.randint(low, end), end, end - 1}
        base = None if marks else log_index.Mark(first=low, seen={})
        plan = None
        while plan is None or not plan.answers:
            plan = log_index.plan(marks, base, low, end, asked, most)
            ranges = [
                (
                    LogRange(log=7, topic=topic, partition=0, first=part.first, end=part.end),
                    origin_context(part.seen),
                )
                for part in plan.parts
            ]
            found = micro_batch.run(
                spark,
                [Slice(bootstrap_servers=servers, properties={}, ranges=ranges)],
                [(7, segment) for segment in plan.known],
                [(7, offset) for offset in asked],
            )
            for part in plan.parts:
                marks = joined(marks, log_index.extended(part, found.segments.get(7, [])))
            base = None
        rows = [row for row in expected(servers, topic) if row[0] == 0]
        for offset in asked:
            before = [row for row in rows if row[1] < offset]
            assert found.answers[7, offset] == Answer(
                timestamp_ms=before[-1][2] if before else None,
                safe_timestamp_ms=min((row[2] for row in rows if row[1] >= offset), default=None),
                vector={1: (1, before[-1][1])} if before else {},
            )
    assert [mark.first for mark in marks] == list(range(0, 7_001, 1_000))
