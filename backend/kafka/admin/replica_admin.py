"""Moving replicas of one cluster: what is there, reassignments, throttles, elections.

By kafka-python's connections, since librdkafka has neither AlterPartitionReassignments nor
ListPartitionReassignments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka.protocol.api_message import ApiMessage

from backend.domain.replication.replication_health import ClusterSeen, PartitionDescribed, TopicSettings
from backend.kafka.admin import cluster_replicas, reassignments, replication_look, replication_throttle
from backend.kafka.admin.cluster_replicas import ClusterReplicas
from backend.kafka.admin.reassignments import Moving
from backend.kafka.admin.replication_throttle import Sides, Throttle
from backend.kafka.base.asking import NOT_ALLOWED, UNSUPPORTED, Place
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.protocol_client import ProtocolClient

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""For one request about hundreds of thousands of partitions."""
_AGAIN_SECONDS = 0.2
_HEARD_SECONDS = 5.0
"""A broker that has not heard of something for as long is fenced."""


class ReplicaAdmin:
    """Administration of one cluster's replicas, its connections kept. For one thread at a time.

    Every call raises KafkaCallFailed, naming the cluster, if no broker answers in time or a request is refused as
    a whole. All of them may be repeated: what is so already stays so.
    """

    def __init__(
        self,
        cluster_name: str,
        bootstrap_servers: str,
        properties: Mapping[str, str],
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Connects to nothing yet. Raises KafkaCallFailed if it cannot log in the way that the properties say, and
        ClusterUnreachable if a secret that they refer to cannot be read."""
        self._cluster, self._seconds = cluster_name, timeout_seconds
        # The controller is to answer that it has not got to something before we stop listening.
        self._milliseconds = int(800 * timeout_seconds)
        self._wanted: dict[Place, tuple[int, ...]] = {}
        """What was asked for of partitions since they were last seen to stand still."""
        self._moving: set[Place] = set()
        """Of these, those that went on when it was last asked."""
        with self._named():
            try:
                self._client = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
            except LoginUnsupported as error:
                raise KafkaCallFailed(error.reason) from error

    def close(self) -> None:
        """End its connections."""
        self._client.close()

    def __enter__(self) -> ReplicaAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, *, whole: bool = True) -> ClusterReplicas:
        """All brokers with their racks and all replicas with their sizes; without sizes and settings of topics if
        it is not to be `whole`: to be asked for again and again.

        What `ongoing` no longer has is told as it is afterwards, though brokers hear of it a moment later.
        """
        with self._named():
            return cluster_replicas.read(self._settled(), self._ask, self._ask_each, whole=whole)

    def look(self) -> ClusterSeen:
        """Brokers, leaders and replicas in sync at this moment, with one large answer: to be asked for often."""
        with self._named():
            moving = self._told_moving()
            metadata = self._ask_same(cluster_replicas.everything())
            return replication_look.read(metadata, self._ask, moving)

    def topic_settings(self, topics: Sequence[str]) -> dict[str, TopicSettings]:
        """What the replication of these topics is judged by; without those that are gone or may not be seen."""
        with self._named():
            return replication_look.topic_settings(self._ask, topics)

    def lag_times_ms(self, brokers: Iterable[int]) -> dict[int, int]:
        """`replica.lag.time.max.ms` of those of these brokers that tell it."""
        with self._named():
            return replication_look.lag_times_ms(self._ask_each, brokers)

    def session_times_ms(self, brokers: Iterable[int]) -> dict[int, int]:
        """`broker.session.timeout.ms` of those of these brokers that tell it."""
        with self._named():
            return replication_look.session_times_ms(self._ask_each, brokers)

    def describe(self, topics: Sequence[str]) -> dict[Place, PartitionDescribed] | None:
        """Leader, replicas in sync and eligible leader replicas (KIP-966) of these topics' partitions, each of one
        moment; None if the cluster does not tell."""
        with self._named():
            return replication_look.describe(self._ask_same, topics)

    def copied(self, adding: Mapping[Place, Sequence[int]]) -> dict[Place, int]:
        """Bytes of partitions that have arrived at these brokers, which are being added to them."""
        with self._named():
            return cluster_replicas.copied(self._ask_each, adding)

    def ongoing(self) -> dict[Place, Moving]:
        """All reassignments that go on, whoever began them: (replicas, adding, removing)."""
        with self._named():
            found = reassignments.ongoing(self._ask, self._milliseconds)
        self._moving = set(found)
        for place, (replicas, _, removing) in found.items():
            self._wanted[place] = tuple(broker for broker in replicas if broker not in removing)
        return found

    def alter(self, wanted: Mapping[Place, Sequence[int] | None]) -> dict[Place, str]:
        """Begin reassignments to these brokers, or cancel them (None); those that were refused, and why."""
        with self._named():
            refused = reassignments.alter(self._ask, wanted, self._milliseconds)
        begun = {place: tuple(brokers) for place, brokers in wanted.items() if brokers and place not in refused}
        self._wanted |= begun
        self._moving |= begun.keys()
        return refused

    def elect_preferred(self, partitions: Iterable[Place]) -> dict[Place, str]:
        """Let the preferred broker of each lead it; those that it does not lead afterwards, and why."""
        with self._named():
            return reassignments.elect_preferred(self._ask, partitions, self._milliseconds)

    def intended_throttle(
        self, rate_bytes_per_second: int, replicas: Mapping[Place, Sides], earlier: Throttle | None = None
    ) -> Throttle:
        """What `throttle` would set so that these are copied no faster, and what is there now: to be kept before
        it is set. `replicas` are brokers that a partition may be copied from, and those that it is copied to.

        With an `earlier` one it is that and these, at the new rate; for another rate alone, `earlier.at(rate)`
        will do.
        """
        with self._named():
            return replication_throttle.intended(
                self._ask, self._ask_each, rate_bytes_per_second, replicas, earlier
            )

    def throttle(self, throttle: Throttle) -> dict[str, str]:
        """Set it; what was refused or did not answer (`broker 3`, `topic orders`), and why."""
        with self._named():
            return replication_throttle.apply(self._ask, self._ask_each, throttle, self._seconds)

    def unthrottle(self, throttle: Throttle) -> dict[str, str]:
        """Take away what is as it was set, and put back what was there before; what could not be (`broker 3`), and
        why. As long as there is any, it is to be kept and tried again."""
        with self._named():
            return replication_throttle.take_away(self._ask, self._ask_each, throttle, self._seconds)

    def _told_moving(self) -> Mapping[Place, Moving]:
        """Reassignments that go on; none where the cluster does not tell them."""
        try:
            return reassignments.ongoing(self._ask, self._milliseconds)
        except KafkaCallFailed as error:
            if error.code not in (UNSUPPORTED, *NOT_ALLOWED):
                raise
            return {}

    def _settled(self) -> Any:
        """All topics, by a broker that has heard of the ends of all reassignments that `ongoing` has not any
        more.

        As long as one goes on, brokers list what was asked for and behind it what is to go. Told after its end,
        that would look as if somebody else had changed the partition.
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

    def _ask(self, request: ApiMessage) -> Any:
        return self._until_answered(lambda: self._client.ask(request))

    def _ask_same(self, request: ApiMessage) -> Any:
        return self._until_answered(lambda: self._client.ask_same(request))

    def _ask_each(self, requests: Mapping[int, ApiMessage]) -> Mapping[int, Any]:
        return self._until_answered(lambda: self._client.ask_each(requests))

    def _until_answered(self, call: Callable[[], T]) -> T:
        """A broker that has just died is asked as any other: the next one answers."""
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
