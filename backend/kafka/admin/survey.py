"""Survey of clusters, several at once: topics with configuration and sizes, and groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog

from backend.domain.base.errors import ClusterUnreachable, DomainError
from backend.domain.clusters.adoption_facts import FoundTopic
from backend.domain.names import formats
from backend.kafka.admin import header_sample
from backend.kafka.admin.topics import TopicAdmin
from backend.kafka.base.errors import KafkaCallFailed

logger = structlog.get_logger(__name__)

MOST_AT_ONCE = 16
SAMPLE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""Timeout of one request about thousands of topics."""


@dataclass(frozen=True)
class ClusterPlace:
    """Connection facts of a cluster."""

    cluster: str
    bootstrap_servers: str
    properties: Mapping[str, str]


def survey(
    place: ClusterPlace, probe_seconds: float, headers: Collection[str]
) -> tuple[list[FoundTopic], list[tuple[str, str]]]:
    """Return every topic and group of a cluster, in a few requests whatever their number.

    Some of the newest records are sampled for `headers`. Raises ClusterUnreachable.
    """
    try:
        admin = _admin(place, probe_seconds)
        names = admin.names()
        topics = _topics(admin, names, names)
        filled = {topic.topic: topic.partitions for topic in topics if topic.records and _is_users(topic.topic)}
        carrying = header_sample.topics_with(
            headers, place.bootstrap_servers, place.properties, filled, SAMPLE_SECONDS
        )
        return [replace(topic, has_copies=topic.topic in carrying) for topic in topics], admin.groups()
    except KafkaCallFailed as error:
        raise ClusterUnreachable(f"{place.cluster} does not answer: {error.reason}") from error


def _is_users(topic: str) -> bool:
    return formats.topic_problem(topic) is None


def holdings(
    places: Sequence[ClusterPlace], wanted: Callable[[str], Collection[str]], probe_seconds: float
) -> dict[str, dict[str, FoundTopic] | None]:
    """Return the topics of each cluster, in full for those in `wanted(cluster)`, else by name; None: no answer."""

    def look(place: ClusterPlace) -> dict[str, FoundTopic] | None:
        try:
            admin = _admin(place, probe_seconds)
            names = admin.names()
            asked = set(wanted(place.cluster))
            known = _topics(admin, names, [name for name in names if name in asked])
        except (KafkaCallFailed, DomainError) as error:
            logger.info("a cluster could not be surveyed", cluster=place.cluster, reason=str(error))
            return None
        return {topic.topic: topic for topic in known}

    if not places:
        return {}
    with ThreadPoolExecutor(min(len(places), MOST_AT_ONCE)) as threads:
        return dict(zip((place.cluster for place in places), threads.map(look, places), strict=True))


def _admin(place: ClusterPlace, probe_seconds: float) -> TopicAdmin:
    """Return a client of a cluster that answered within the probe's time; its own requests may take longer."""
    TopicAdmin(place.bootstrap_servers, place.properties, probe_seconds).observe(())
    return TopicAdmin(place.bootstrap_servers, place.properties, ANSWER_SECONDS)


def _topics(admin: TopicAdmin, names: Sequence[str], in_full: Sequence[str]) -> list[FoundTopic]:
    facts, hidden = admin.describe(in_full)
    configs, refused = admin.configs(list(facts))
    records = admin.records(facts.values())
    found = [
        FoundTopic(
            topic=name,
            topic_id=facts[name].topic_id,
            partitions=facts[name].partitions,
            replication_factor=facts[name].replication_factor,
            config=configs[name].values if name in configs else {},
            own=configs[name].own if name in configs else {},
            records=records.get(name),
            refusal=refused.get(name),
        )
        for name in facts
    ]
    found += [FoundTopic(topic=name, refusal=reason) for name, reason in hidden.items()]
    described = {topic.topic for topic in found}
    return found + [FoundTopic(topic=name) for name in set(names) - described]
