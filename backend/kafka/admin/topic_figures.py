"""Figures of one topic from its cluster: leaders, in-sync replicas, offsets, newest timestamps and sizes.

Descriptions and offsets come through librdkafka, which supports every login. Sizes need DescribeLogDirs, which it
lacks: for a login that only librdkafka supports they stay unknown, with the reason.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.protocol.admin import DescribeLogDirsRequest

from backend.domain.topics.stream_figures import PartitionFigures, TopicFigures
from backend.kafka.admin.cluster_replicas import held_replicas
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported, kafka_error, sentence
from backend.kafka.base.protocol_client import ProtocolClient
from backend.kafka.base.requests import explained
from backend.kafka.logs.log_ends import ends_by

_LEAST_SECONDS = 0.2
_LATE = (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT)


def read_figures(
    bootstrap_servers: str, properties: Mapping[str, str], topic: str, seconds: float
) -> TopicFigures | None:
    """Return the figures of a topic; None if the cluster has no such topic.

    Offsets and sizes that single brokers do not report in time are left out. Raises KafkaCallFailed if the cluster
    does not answer within `seconds`, or refuses; ClusterUnreachable for a secret that cannot be read.
    """
    deadline = time.monotonic() + seconds
    config = client_config(bootstrap_servers, properties)
    try:
        admin = AdminClient(config)
        (future,) = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds).values()
        described = future.result(seconds + 1)
    except (KafkaException, TimeoutError, ValueError) as error:
        inner = kafka_error(error)
        if inner is not None and inner.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise _failed(error, seconds) from error
    rows = [
        PartitionFigures(
            partition=each.id,
            leader=None if each.leader is None or each.leader.id < 0 else each.leader.id,
            replicas=tuple(node.id for node in each.replicas),
            isr=tuple(node.id for node in each.isr),
        )
        for each in sorted(described.partitions, key=lambda each: each.id)
    ]
    led = [(topic, each.partition) for each in rows if each.leader is not None]
    ends = ends_by(admin, led, _left(deadline), undecided_too=True)
    newest = _newest(admin, list(ends), _left(deadline))
    rows = [
        _with_offsets(row, ends.get((topic, row.partition)), newest.get((topic, row.partition))) for row in rows
    ]
    sized, unsized = _sizes(bootstrap_servers, properties, topic, rows, _left(deadline))
    return TopicFigures(topic_id=str(described.topic_id), partitions=tuple(sized), unsized=unsized)


def _failed(error: Exception, seconds: float) -> KafkaCallFailed:
    inner = kafka_error(error)
    if isinstance(error, TimeoutError) or (inner is not None and inner.code() in _LATE):
        return KafkaCallFailed(f"timed out after {seconds:g} s")
    return KafkaCallFailed(sentence(error), inner.code() if inner else None)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), _LEAST_SECONDS)


def _with_offsets(row: PartitionFigures, ends: tuple[int, int] | None, newest: int | None) -> PartitionFigures:
    if ends is None:
        return row
    return replace(row, start_offset=ends[0], end_offset=ends[1], newest_ms=newest)


def _newest(admin: AdminClient, places: Sequence[tuple[str, int]], seconds: float) -> dict[tuple[str, int], int]:
    """Return the largest timestamp of each partition's records (KIP-734, Kafka 3.0), where it is known."""
    if not places:
        return {}
    spec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*place): spec for place in places}
    try:
        going = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=seconds)
    except KafkaException:
        return {}
    found = {}
    for place, future in going.items():
        try:
            timestamp = int(future.result(seconds + 1).timestamp)
        except (KafkaException, TimeoutError):
            continue
        if timestamp >= 0:
            found[place.topic, place.partition] = timestamp
    return found


def _sizes(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    topic: str,
    rows: Sequence[PartitionFigures],
    seconds: float,
) -> tuple[list[PartitionFigures], str]:
    """Return the rows with their sizes, and the reason why some are missing."""
    asked: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        for broker in row.replicas:
            asked[broker].append(row.partition)
    requests = {broker: DescribeLogDirsRequest(topics=[(topic, parts)]) for broker, parts in asked.items()}
    try:
        client = ProtocolClient(bootstrap_servers, properties, seconds)
    except (LoginUnsupported, KafkaCallFailed) as error:
        return list(rows), error.reason
    try:
        answers = client.send_each(requests)
    except KafkaCallFailed as error:
        return list(rows), error.reason
    finally:
        client.close()
    sizes: dict[tuple[int, int], int] = {}
    reasons = []
    for broker, answer in sorted(answers.items()):
        reasons += _refusals(broker, answer)
        for (_, partition), size in () if isinstance(answer, KafkaCallFailed) else held_replicas(answer):
            sizes[broker, partition] = size
    return [_with_sizes(row, sizes) for row in rows], "; ".join(reasons)


def _refusals(broker: int, answer: Any) -> list[str]:
    if isinstance(answer, KafkaCallFailed):
        return [f"broker {broker}: {answer.reason}"]
    return [f"broker {broker}: {explained(each)}" for each in (answer, *answer.results) if each.error_code][:1]


def _with_sizes(row: PartitionFigures, sizes: Mapping[tuple[int, int], int]) -> PartitionFigures:
    held = [sizes.get((broker, row.partition)) for broker in row.replicas]
    known = [each for each in held if each is not None]
    return replace(
        row,
        size_bytes=None if row.leader is None else sizes.get((row.leader, row.partition)),
        disk_bytes=sum(known) if held and len(known) == len(held) else None,
    )
