"""A control plane whose distributors run only on the test's command, over three clusters of the shared estate.

              level 2
            /         \\
          a          level 1
                     /     \\
                    b       c

Records produced on `a` reach `c` through `b`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from backend.domain.distribution.assignment import Task
from backend.domain.tenants.stream_records import RecordApplied
from backend.kafka.admin.topics import TopicAdmin
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.control_plane import ControlPlane, Gone, Replaced
from backend.kafka.copy.session import CopySession
from backend.settings import Settings
from tests.eventually import eventually
from tests.support.api.rest import Rest
from tests.support.api.streams import worker_records
from tests.support.database.postgres import Database
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce, read_all
from workers.distribution import desired
from workers.switches.drain import Drain, Drained
from workers.switches.estate_view import EstateView

LIMITS = CopyLimits(
    batch_records=500, transaction_timeout_ms=15000, fetch_wait_max_ms=50, fetch_buffer_kbytes=8192
)
CLUSTERS = {"a": "cluster-1", "b": "cluster-2", "c": "cluster-3"}


@dataclass
class ByHand:
    """Control plane in which `a`, `b` and `c` are clusters under names that no other test uses."""

    estate: RunningEstate
    database: Database
    rest: Rest
    settings: Settings
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    streams: list[str] = field(default_factory=list)
    views: list[EstateView] = field(default_factory=list)
    losses: list[Gone] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    """Replaced topics that distributors have reported."""

    def __post_init__(self) -> None:
        for letter in CLUSTERS:
            body = {"name": self.name(letter), "bootstrap_servers": self.servers(letter)}
            assert self.rest("POST", "/clusters", body).status_code == 201
        a, b, c = ({"cluster": self.name(letter)} for letter in CLUSTERS)
        tree = {"level": 2, "children": [a, {"level": 1, "children": [b, c]}]}
        for method, path, sent in (
            ("PUT", "/trees/main", tree),
            ("POST", "/tenants", {"name": "acme"}),
            ("POST", "/tenants/acme/instances", {"name": "retail", "tree": "main"}),
            ("POST", "/tenants/acme/instances/retail/environments", {"name": "prod"}),
        ):
            answer = self.rest(method, path, sent)
            assert answer.status_code == 201, answer.text
        self.add_stream(2)

    def name(self, letter: str) -> str:
        return f"{letter}{self.mark}"

    def servers(self, letter: str) -> str:
        return self.estate.bootstrap_servers(CLUSTERS[letter])

    @property
    def stream(self) -> str:
        """Return the last stream that was made."""
        return f"acme/retail/prod/{self.streams[-1]}"

    def topic(self, letter: str) -> str:
        name: str = self._row()["technical_names"][self.name(letter)]
        return name

    def _row(self) -> dict[str, Any]:
        path = f"/tenants/acme/instances/retail/environments/prod/streams/{self.streams[-1]}"
        row: dict[str, Any] = self.rest("GET", path).json()
        return row

    def add_stream(self, partitions: int, **config: str) -> None:
        """Add a stream, with its topic on all clusters."""
        self.streams.append(f"s{secrets.token_hex(4)}")
        path = "/tenants/acme/instances/retail/environments/prod/streams"
        answer = self.rest("POST", path, {"name": self.streams[-1], "partitions": partitions})
        assert answer.status_code == 201, answer.text
        for letter in CLUSTERS:
            create_topic(self.servers(letter), self.topic(letter), partitions, **config)
            self._record(letter)

    def make_anew(self, letter: str) -> None:
        """Delete a cluster's topic and create it again with another id."""
        admin, topic = AdminClient({"bootstrap.servers": self.servers(letter)}), self.topic(letter)
        admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
        eventually(lambda: topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics, "it is gone")
        create_topic(self.servers(letter), topic, 2)
        self._record(letter)

    def add_partition(self) -> None:
        """Add a partition to the stream, on all clusters."""
        row = self._row()
        path = f"/tenants/acme/instances/retail/environments/prod/streams/{self.streams[-1]}"
        assert self.rest("PATCH", path, {"partitions": row["partitions"] + 1}).is_success
        for letter in CLUSTERS:
            admin, topic = AdminClient({"bootstrap.servers": self.servers(letter)}), self.topic(letter)
            admin.create_partitions([NewPartitions(topic, row["partitions"] + 1)])[topic].result(DEADLINE_SECONDS)
            self._record(letter)

    def _record(self, letter: str) -> None:
        topic = self.topic(letter)
        admin = TopicAdmin(self.servers(letter), {}, DEADLINE_SECONDS)
        facts = eventually(lambda: admin.describe([topic])[0], "the topic is known")
        place = {"instance": "retail", "environment": "prod", "stream": self.streams[-1]}
        command = RecordApplied(
            **place, cluster=self.name(letter), topic_id=facts[topic].topic_id, replication_factor=1
        )
        worker_records(self.rest, command)

    def produce(self, letter: str, count: int, partition: int = 0, **more: Any) -> None:
        """Produce records with the values 0, 1, 2, ..."""
        values = [{"value": b"%d" % number, "partition": partition, **more} for number in range(count)]
        produce(self.servers(letter), self.topic(letter), values)

    def transaction(self, letter: str, count: int, partition: int = 0) -> Producer:
        """Open a transaction whose records are in the log already."""
        config = {"bootstrap.servers": self.servers(letter), "transactional.id": f"test-{secrets.token_hex(4)}"}
        producer = Producer(config)
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(self.topic(letter), b"t%d" % number, partition=partition)
        assert producer.flush(DEADLINE_SECONDS) == 0
        return producer

    def copy(self, *edges: tuple[str, int]) -> None:
        """Let distributors (letter, level) copy all records, one after the other."""
        with self.database.engine.connect() as connection:
            plans = desired.read(connection, self.settings).plans
        for letter, level in edges:
            for bucket in range(self.settings.partition_buckets):
                plan = plans[Task(self.name(letter), level, bucket)]
                control_plane = ControlPlane(lost=self.losses.append, replaced=self.replaced.append)
                session = CopySession(plan, LIMITS, control_plane=control_plane)
                try:
                    session.open(lambda: True)
                    while session.lag_records() != 0:
                        session.copy_batch(0.2)
                finally:
                    session.close()

    def view(self) -> EstateView:
        """Return a new view without any cached facts."""
        self.views.append(EstateView(self.database.engine, self.settings))
        return self.views[-1]

    def drain(self, source: str, *targets: str, streams: Sequence[str] | None = None) -> Drain:
        return Drain(
            self.view(),
            self.name(source),
            [self.name(target) for target in targets],
            [self.stream] if streams is None else streams,
        )

    def values(self, letter: str, partition: int = 0) -> list[str]:
        """Return the values of all records, in log order."""
        found = read_all(self.servers(letter), self.topic(letter))
        return [(m.value() or b"").decode() for m in found if m.partition() == partition]

    def group(self, name: str) -> str:
        """Return a group's technical name, the same on all clusters."""
        return f"acme-retail-prod-{name}{self.mark}"

    def consumer(self, letter: str, name: str, **config: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers(letter),
                "group.id": self.group(name),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                **config,
            }
        )

    def commit(self, letter: str, name: str, offset: int, partition: int = 0) -> None:
        """Commit an offset as a consumer without members does."""
        consumer = self.consumer(letter, name)
        at = TopicPartition(self.topic(letter), partition, offset)
        consumer.commit(offsets=[at], asynchronous=False)
        consumer.close()


def until(drain: Drain) -> Drained:
    """Observe the drain until it is complete."""

    def look() -> Drained | None:
        found = drain.observe()
        return found if found.is_drained else None

    return eventually(look, "drained")
