"""Administration of one cluster's replicas: placement, reassignments, throttles, elections.

It uses kafka-python's connections, since librdkafka has neither AlterPartitionReassignments nor
ListPartitionReassignments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka.protocol.api_message import ApiMessage

from backend.domain.replication.replica_sizes import ReplicaSizes
from backend.domain.replication.replication_health import ObservedCluster, PartitionDescribed, TopicSettings
from backend.kafka.admin import cluster_replicas, reassignments, replication_observation, replication_throttle
from backend.kafka.admin.cluster_replicas import ClusterReplicas
from backend.kafka.admin.reassignments import Moving
from backend.kafka.admin.replication_throttle import Sides, Throttle
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.protocol_client import ProtocolClient
from backend.kafka.base.requests import NOT_ALLOWED, UNSUPPORTED, Place

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""Timeout of one request about hundreds of thousands of partitions."""
_AGAIN_SECONDS = 0.2
_HEARD_SECONDS = 5.0
"""A broker that does not catch up with metadata for this long is fenced."""


class ReplicaAdmin:
    """Administration of one cluster's replicas, with connections kept. For one thread at a time.

    Every call raises KafkaCallFailed, naming the cluster, if no broker answers in time or a request is refused as
    a whole. All calls may be repeated: they are idempotent.
    """

    def __init__(
        self,
        cluster_name: str,
        bootstrap_servers: str,
        properties: Mapping[str, str],
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Create the client without connecting.

        Raises KafkaCallFailed if the login of the properties is not supported, and ClusterUnreachable if a secret
        that they refer to cannot be read.
        """
        self._cluster, self._seconds = cluster_name, timeout_seconds
        # The controller should answer that it timed out before the client stops listening.
        self._milliseconds = int(800 * timeout_seconds)
        self._wanted: dict[Place, tuple[int, ...]] = {}
        """Replicas requested for partitions since they were last seen without a reassignment."""
        self._moving: set[Place] = set()
        """Those of the partitions whose reassignment was ongoing in the last answer."""
        with self._named():
            try:
                self._client = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
            except LoginUnsupported as error:
                raise KafkaCallFailed(error.reason) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> ReplicaAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, *, whole: bool = True) -> ClusterReplicas:
        """Return all brokers with their racks and all replicas with their sizes.

        With `whole` False, sizes and topic settings are left out, which is cheap enough for polling.

        Partitions whose reassignment has ended are returned in their final state, once brokers know about it.
        """
        with self._named():
            return cluster_replicas.read(self._settled(), self._send, self._send_each, whole=whole)

    def observe(self) -> ObservedCluster:
        """Return brokers, leaders and in-sync replicas now, with one large answer: suitable for frequent polls."""
        with self._named():
            moving = self._reported_reassignments()
            metadata = self._ask_same(cluster_replicas.everything())
            return replication_observation.read(metadata, self._send, moving)

    def sizes(self, seen: ObservedCluster) -> ReplicaSizes | None:
        """Return the sizes of all replicas of an observation; None if no broker reports them."""
        with self._named():
            return cluster_replicas.replica_sizes(self._send_each, seen)

    def topic_settings(self, topics: Sequence[str]) -> dict[str, TopicSettings]:
        """Return the settings that these topics' replication is judged by, except topics gone or not readable."""
        with self._named():
            return replication_observation.topic_settings(self._send, topics)

    def lag_times_ms(self, brokers: Iterable[int]) -> dict[int, int]:
        """Return `replica.lag.time.max.ms` of those of these brokers that report it."""
        with self._named():
            return replication_observation.lag_times_ms(self._send_each, brokers)

    def session_times_ms(self, brokers: Iterable[int]) -> dict[int, int]:
        """Return `broker.session.timeout.ms` of those of these brokers that report it."""
        with self._named():
            return replication_observation.session_times_ms(self._send_each, brokers)

    def describe(self, topics: Sequence[str]) -> dict[Place, PartitionDescribed] | None:
        """Return leader, ISR and eligible leader replicas (KIP-966) of these topics' partitions.

        Each is from a single moment; None if the cluster does not support the request.
        """
        with self._named():
            return replication_observation.describe(self._ask_same, topics)

    def copied(self, adding: Mapping[Place, Sequence[int]]) -> dict[Place, int]:
        """Return the bytes of partitions that have arrived at the brokers that are being added to them."""
        with self._named():
            return cluster_replicas.copied(self._send_each, adding)

    def ongoing(self) -> dict[Place, Moving]:
        """Return all ongoing reassignments, whoever started them: (replicas, adding, removing)."""
        with self._named():
            found = reassignments.ongoing(self._send, self._milliseconds)
        self._moving = set(found)
        for place, (replicas, _, removing) in found.items():
            self._wanted[place] = tuple(broker for broker in replicas if broker not in removing)
        return found

    def alter(self, wanted: Mapping[Place, Sequence[int] | None]) -> dict[Place, str]:
        """Start reassignments to these brokers, or cancel them (None); return the refused ones, with reasons."""
        with self._named():
            refused = reassignments.alter(self._send, wanted, self._milliseconds)
        begun = {place: tuple(brokers) for place, brokers in wanted.items() if brokers and place not in refused}
        self._wanted |= begun
        self._moving |= begun.keys()
        return refused

    def elect_preferred(self, partitions: Iterable[Place]) -> dict[Place, str]:
        """Elect the preferred leader of each partition; return those where this failed, with reasons."""
        with self._named():
            return reassignments.elect_preferred(self._send, partitions, self._milliseconds)

    def intended_throttle(
        self, rate_bytes_per_second: int, replicas: Mapping[Place, Sides], earlier: Throttle | None = None
    ) -> Throttle:
        """Return the throttle that keeps these copies below a rate, and the present state; store it before use.

        `replicas`: (brokers that a partition may be copied from, brokers that it goes to). With `earlier`, the
        result covers both, at the new rate; to change only the rate, use `earlier.at(rate)`.
        """
        with self._named():
            return replication_throttle.intended(
                self._send, self._send_each, rate_bytes_per_second, replicas, earlier
            )

    def throttle(self, throttle: Throttle) -> dict[str, str]:
        """Set a throttle; return what was refused or did not answer (`broker 3`, `topic orders`), with reasons."""
        with self._named():
            return replication_throttle.apply(self._send, self._send_each, throttle, self._seconds)

    def unthrottle(self, throttle: Throttle) -> dict[str, str]:
        """Remove a throttle where it is still as it was set, and restore the values from before.

        Return what failed (`broker 3`), with reasons; until that is empty, keep the throttle and retry.
        """
        with self._named():
            return replication_throttle.take_away(self._send, self._send_each, throttle, self._seconds)

    def _reported_reassignments(self) -> Mapping[Place, Moving]:
        """Return ongoing reassignments; empty where the cluster does not report them."""
        try:
            return reassignments.ongoing(self._send, self._milliseconds)
        except KafkaCallFailed as error:
            if error.code not in (UNSUPPORTED, *NOT_ALLOWED):
                raise
            return {}

    def _settled(self) -> Any:
        """Return the metadata of all topics from a broker that knows the end of every ended reassignment.

        During a reassignment, brokers list the requested replicas followed by those to be removed. Read after its
        end, that would look as if someone else had changed the partition.
        """
        ended = {place: wanted for place, wanted in self._wanted.items() if place not in self._moving}
        deadline = time.monotonic() + _HEARD_SECONDS
        while True:
            answer = self._ask_same(cluster_replicas.everything())
            if not _goes_on(answer, ended) or time.monotonic() > deadline:
                break
            time.sleep(_AGAIN_SECONDS)
        for place in ended:
            del self._wanted[place]
        return answer

    def _send(self, request: ApiMessage) -> Any:
        return self._until_answered(lambda: self._client.send(request))

    def _ask_same(self, request: ApiMessage) -> Any:
        return self._until_answered(lambda: self._client.ask_same(request))

    def _send_each(self, requests: Mapping[int, ApiMessage]) -> Mapping[int, Any]:
        return self._until_answered(lambda: self._client.send_each(requests))

    def _until_answered(self, call: Callable[[], T]) -> T:
        """Retry until a broker answers: after one that has just died, the next attempt reaches another."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return call()
            except KafkaCallFailed as error:
                if error.code is not None or time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_SECONDS)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except KafkaCallFailed as error:
            raise KafkaCallFailed(f"{self._cluster}: {error.reason}", error.code) from error


def _goes_on(answer: Any, ended: Mapping[Place, tuple[int, ...]]) -> bool:
    topics = {topic for topic, _ in ended}
    for topic in answer.topics:
        for each in topic.partitions if topic.name in topics else ():
            wanted, listed = ended.get((topic.name, each.partition_index)), tuple(each.replica_nodes)
            if wanted is not None and listed != wanted and listed[: len(wanted)] == wanted:
                return True
    return False
