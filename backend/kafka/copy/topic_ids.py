"""Check that topics still are the ones that a plan was made for.

A topic that is deleted and re-created keeps its name: clients continue as if nothing had happened, and only its id
differs. Ids never return, so if an id is as planned after a batch was read, or after its copies were acknowledged,
it was so all the time: everything was read from, or written to, the planned topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from backend.domain.distribution.edges import EdgePlan, Endpoint, StreamOnEdge
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import CopyFailed, kafka_error

_REQUEST_SECONDS = 10.0
_IDLE_SECONDS = 600.0
"""A client that was idle for so long is closed: its cluster has gone, or has another address. Far longer than a
request takes, so that no thread waits for an answer of a closed client."""
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class TopicIds:
    """One client per cluster, shared by all tasks of a process; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the cache; `clock` returns the seconds by which idle clients are closed."""
        self._lock = threading.Lock()
        self._clock = clock
        self._clients: dict[tuple[str, frozenset[tuple[str, str]]], _Client] = {}

    def check(self, plan: EdgePlan, rows: Iterable[StreamOnEdge]) -> None:
        """Check both ends, concurrently: these streams' topics must have the planned ids.

        Otherwise records of a re-created topic would be taken for the old one's, or copies in it for lost with it:
        both would be copied again once the new topic is recorded. Raises CopyFailed if an id differs,
        KafkaException if no broker answers.
        """
        streams = list(rows)
        ends = (
            (plan.source, {row.source_topic: row.source_topic_id for row in streams if row.source_topic_id}),
            (plan.target, {row.target_topic: row.target_topic_id for row in streams if row.target_topic_id}),
        )
        asked = [(end, ids, self._ask(end, ids)) for end, ids in ends]
        for end, ids, answers in asked:
            for topic, answer in answers.items():
                found = _id(answer)
                if found != ids[topic]:
                    what = "is gone" if found is None else "was re-created"
                    where = f"{plan.task.name} to {plan.target.name}"
                    raise CopyFailed(f"{where}: topic {topic} on {end.name} {what}; it is being recorded")

    def _ask(self, endpoint: Endpoint, topics: Iterable[str]) -> Mapping[str, Future[Any]]:
        names = sorted(topics)
        if not names:
            return {}
        answers: Mapping[str, Future[Any]] = self._client(endpoint).describe_topics(
            TopicCollection(names), request_timeout=_REQUEST_SECONDS
        )
        return answers

    def _client(self, endpoint: Endpoint) -> AdminClient:
        key = (endpoint.bootstrap_servers, frozenset(endpoint.properties.items()))
        with self._lock:
            now = self._clock()
            if key not in self._clients:
                admin = AdminClient(client_config(endpoint.bootstrap_servers, endpoint.properties))
                self._clients[key] = _Client(admin, now)
            client = self._clients[key]
            client.used_at = now
            idle = [each for each, one in self._clients.items() if now - one.used_at > _IDLE_SECONDS]
            closing = [self._clients.pop(each).admin for each in idle]
        for admin in closing:
            with admin:  # the only way to close one
                pass
        return client.admin


@dataclass
class _Client:
    admin: AdminClient
    used_at: float
    """Seconds of the clock at its last use."""


def _id(future: Future[Any]) -> str | None:
    try:
        return str(future.result(_REQUEST_SECONDS + 1).topic_id)
    except KafkaException as error:
        inner = kafka_error(error)
        if inner is not None and inner.code() in _GONE:
            return None
        raise
