"""Schemas that are registered on the primary are on all clusters, under each one's names; others' schemas stay."""

from __future__ import annotations

import random
import secrets

import pytest
from confluent_kafka.schema_registry import SchemaReference, record_subject_name_strategy
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from backend.registry.records import Content, SchemaVersion, VersionGone
from tests.eventually import eventually
from tests.support.estate.running import RunningEstate
from tests.support.schemas.registries import Registries
from tests.support.schemas.written_log import avro, referring


@pytest.fixture(scope="module")
def registries(estate: RunningEstate) -> Registries:
    return Registries.of(estate)


@pytest.fixture
def suffix() -> str:
    """Return the suffix of a subject of this test alone, of the stream orders: by TopicRecordNameStrategy."""
    return f"com.acme.R{secrets.token_hex(6)}"


def test_a_schema_is_on_every_cluster_with_its_id_and_references(registries: Registries, suffix: str) -> None:
    of = registries.primary
    inner, outer = registries.subject(of, "payments", suffix), registries.subject(of, "orders", suffix)
    name = f"I{secrets.token_hex(4)}"
    inner_id = registries.register(inner, avro("a", name=name))
    text = referring(f"O{name}", name)
    outer_id = registries.register(outer, text, [SchemaReference(name, inner, 1)])
    assert len(registries.targets) == 4
    for cluster in registries.targets:
        there = registries.wait_for_id(cluster, registries.subject(cluster, "orders", suffix), outer_id)
        assert (there.version, there.schema.schema_str) == (1, text)
        reference = there.schema.references[0]
        assert (reference.name, reference.subject) == (name, registries.subject(cluster, "payments", suffix))
        assert registries.client(cluster).get_schema(inner_id).schema_str == avro("a", name=name)
        if registries.formats[cluster] != registries.formats[of]:
            assert registries.versions(cluster, outer) == []


def protobuf_messages(mark: str) -> type[Message]:
    """A message of its own package, with a field of a type that another file has."""
    pool = DescriptorPool()
    inner = FileDescriptorProto(name=f"{mark}/inner.proto", package=mark, syntax="proto3")
    field = inner.message_type.add(name="Inner").field.add(name="n", number=1)
    field.type, field.label = field.TYPE_INT64, field.LABEL_OPTIONAL
    outer = FileDescriptorProto(name=f"{mark}/outer.proto", package=mark, syntax="proto3")
    outer.dependency.append(inner.name)
    field = outer.message_type.add(name="Outer").field.add(name="inner", number=1, type_name=f".{mark}.Inner")
    field.type, field.label = field.TYPE_MESSAGE, field.LABEL_OPTIONAL
    for file in (inner, outer):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{mark}.Outer"))


def test_protobuf_is_written_on_the_primary_and_read_on_a_target_by_stock_clients(
    registries: Registries, suffix: str
) -> None:
    of, cluster, mark = registries.primary, "cluster-4", f"p{suffix[9:].lower()}"
    kind = protobuf_messages(mark)
    # By record name: the subject is the same on all clusters.
    conf = {"subject.name.strategy": record_subject_name_strategy}
    write = ProtobufSerializer(kind, registries.client(of), {**conf, "auto.register.schemas": True})
    context = SerializationContext("orders", MessageField.VALUE)
    sent = kind()
    sent.inner.n = 7  # type: ignore[attr-defined]
    data = write(sent, context)
    assert data is not None and data[0] == 0
    registries.wait_for_id(cluster, f"{mark}.Outer", int.from_bytes(data[1:5], "big"))
    read = ProtobufDeserializer(kind, conf, registries.client(cluster))
    assert read(data, context) == sent


def test_deletions_and_settings_follow(registries: Registries, suffix: str) -> None:
    of = registries.primary
    address, subject = registries.addresses[of], registries.subject(of, "orders", suffix)
    registries.register(subject, avro("a", name=suffix.rpartition(".")[2]))
    second = registries.register(subject, avro("a", "b?", name=suffix.rpartition(".")[2]))
    assert address("PUT", f"/config/{subject}", {"compatibility": "NONE"}).is_success
    assert address("DELETE", f"/subjects/{subject}/versions/1").is_success
    cluster = "cluster-4"
    there = registries.subject(cluster, "orders", suffix)
    registries.wait_for_id(cluster, there, second)
    eventually(lambda: registries.versions(cluster, there) == [2], "version 1 is deleted there")
    assert registries.versions(cluster, there, deleted=True) == [1, 2]
    eventually(
        lambda: (
            registries.addresses[cluster]("GET", f"/config/{there}").json().get("compatibilityLevel") == "NONE"
        ),
        "the level is set there",
    )
    for permanent in ("false", "true"):
        assert address("DELETE", f"/subjects/{subject}?permanent={permanent}").is_success
    eventually(lambda: registries.versions(cluster, there, deleted=True) == [], "it is gone there")


def test_a_strangers_id_is_an_event_and_nothing_is_written_over(registries: Registries, suffix: str) -> None:
    of, cluster = registries.primary, "cluster-5"
    address, subject = registries.addresses[of], registries.subject(of, "orders", suffix)
    there, theirs, name = registries.subject(cluster, "orders", suffix), f"theirs-{suffix}", suffix[9:]
    schema_id = random.randint(10**5, 9 * 10**5)
    text, stranger = avro("a", name=name), avro("z", name=name)
    content = Content(text=stranger)
    # A cluster's topic of schemas is made for the first one.
    first, ours = registries.subject(of, "payments", suffix), registries.subject(cluster, "payments", suffix)
    registries.wait_for_id(cluster, ours, registries.register(first, avro("p", name=f"P{name}")))
    registries.strangers(cluster, SchemaVersion(subject=theirs, version=1, id=schema_id, content=content))
    eventually(lambda: registries.versions(cluster, theirs) == [1], "the stranger's is read")

    assert address("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).is_success
    given = {"schema": text, "id": schema_id, "version": 1}
    assert address("POST", f"/subjects/{subject}/versions", given).json() == {"id": schema_id}
    assert address("DELETE", f"/mode/{subject}").is_success
    later = registries.register(subject, avro("a", "b?", name=name))

    for other in set(registries.targets) - {cluster}:
        registries.wait_for_id(other, registries.subject(other, "orders", suffix), later)
        assert registries.client(other).get_schema(schema_id).schema_str == text
    # What follows the conflict is not held up.
    registries.wait_for_id(cluster, there, later)
    found = [("SchemaConflictFound", "id-taken")]
    eventually(lambda: registries.conflicts(cluster, there) == found, "the conflict is told")

    def degraded() -> bool:
        state = registries.target_state(cluster)
        return (
            state is not None
            and state["state"] == "degraded"
            and there in {each["subject"] for each in state["conflicts"]}
        )

    eventually(degraded, "the target is degraded by this conflict")
    assert registries.client(cluster).get_schema(schema_id).schema_str == stranger
    assert registries.versions(cluster, there) == [2]
    registries.register(subject, avro("a", "b?", "c?", name=name))
    eventually(lambda: registries.versions(cluster, there) == [2, 3], "others go on")
    assert registries.conflicts(cluster, there) == found

    registries.strangers(cluster, VersionGone(subject=theirs, version=1))
    eventually(lambda: registries.versions(cluster, there) == [1, 2, 3], "the way is free")
    resolved = [*found, ("SchemaConflictResolved", "id-taken")]
    eventually(lambda: registries.conflicts(cluster, there) == resolved, "its end is told")
    assert registries.client(cluster).get_schema(schema_id).schema_str == text
