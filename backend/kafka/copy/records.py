"""Check of several clusters at once whether topics hold records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException

from backend.domain.base.errors import ClusterUnreachable
from backend.kafka.admin.topics import count_records
from backend.kafka.base.errors import sentence

logger = structlog.get_logger(__name__)

MOST_AT_ONCE = 16


@dataclass(frozen=True)
class TopicPlace:
    """One topic on one cluster; `recorded`: it is known to exist and to belong to the stream."""

    cluster: str
    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str
    recorded: bool = True


def clusters_with_records(places: Sequence[TopicPlace], timeout_seconds: float) -> tuple[str, ...]:
    """Return the clusters whose topic holds records, or could not be read: the unknown must not be deleted.

    An unrecorded topic will never be deleted, so one that cannot be read does not matter.
    """
    if not places:
        return ()
    with ThreadPoolExecutor(min(len(places), MOST_AT_ONCE)) as threads:
        held = threads.map(lambda place: _may_hold_records(place, timeout_seconds), places)
        return tuple(place.cluster for place, holds in zip(places, held, strict=True) if holds)


def _may_hold_records(place: TopicPlace, timeout_seconds: float) -> bool:
    try:
        return count_records(place.bootstrap_servers, place.properties, place.topic, timeout_seconds) > 0
    except (KafkaException, ClusterUnreachable) as error:
        logger.info("a topic could not be checked for records", cluster=place.cluster, reason=sentence(error))
        return place.recorded
