"""Records with new schemas, produced on the primary, read elsewhere by stock deserializers as they come."""

from __future__ import annotations

import secrets
import threading

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryError, topic_record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.eventually import GIVE_UP_SECONDS, eventually
from tests.support.estate.running import RunningEstate
from tests.support.schemas.registries import Registries
from tests.support.schemas.written_log import avro

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"
RECORDS = 40


@pytest.fixture(scope="module")
def registries(estate: RunningEstate) -> Registries:
    return Registries.of(estate)


@pytest.fixture
def topics(registries: Registries) -> dict[str, str]:
    """Return the topics of a stream of this test's own, by cluster."""
    name = f"s{secrets.token_hex(5)}"
    registries.rest.ok("POST", STREAMS, {"name": name, "partitions": 1})

    def applied() -> dict[str, str] | None:
        row = registries.rest.ok("GET", f"{STREAMS}/{name}")
        found: dict[str, str] = row["technical_names"]
        return found if set(row["applied"].values()) == {"applied"} else None

    return eventually(applied, "its topics are there")


class Reading(threading.Thread):
    """Reads a cluster's topic, each record as soon as it is there, with that cluster's registry."""

    def __init__(self, registries: Registries, cluster: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.found: list[str] = []
        self.failed: Exception | None = None
        self._topic = topic
        self._deserialize = AvroDeserializer(registries.client(cluster))
        self._consumer = Consumer(
            {
                "bootstrap.servers": registries.servers[cluster],
                "group.id": f"test-{secrets.token_hex(4)}",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def run(self) -> None:
        try:
            while len(self.found) < RECORDS:
                message = self._consumer.poll(GIVE_UP_SECONDS)
                assert message is not None and message.error() is None, message and message.error()
                said = self._deserialize(message.value(), SerializationContext(self._topic, MessageField.VALUE))
                self.found.append(said["a"])
        except (KafkaException, SchemaRegistryError, SerializationError, AssertionError) as error:
            self.failed = error
        finally:
            self._consumer.close()


def test_a_deserializer_elsewhere_knows_each_schema_when_its_record_comes(
    registries: Registries, topics: dict[str, str]
) -> None:
    of = registries.primary
    readers = [Reading(registries, cluster, topics[cluster]) for cluster in registries.targets]
    for reader in readers:
        reader.start()
    client, producer = (
        registries.client(of),
        Producer({"bootstrap.servers": registries.servers[of], "linger.ms": 0}),
    )
    for number in range(RECORDS):
        serialize = AvroSerializer(
            client,
            avro("a", name=f"R{number}x{secrets.token_hex(4)}"),
            conf={"subject.name.strategy": topic_record_subject_name_strategy},
        )
        context = SerializationContext(topics[of], MessageField.VALUE)
        producer.produce(topics[of], serialize({"a": str(number)}, context), partition=0)
        producer.flush(GIVE_UP_SECONDS)
    for reader in readers:
        reader.join(GIVE_UP_SECONDS)
        assert reader.failed is None
        assert reader.found == [str(number) for number in range(RECORDS)]
