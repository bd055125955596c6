"""The registries of the default estate, asked by the stock client; the topics are looked at as well."""

from __future__ import annotations

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from backend.registry.records import Content, SchemaVersion, decode, encode
from tests.eventually import eventually
from tests.support.api import http
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic, produce, read_all, topics
from tests.support.schemas.addresses import TOPIC, Address, another_api, settled
from tests.support.schemas.written_log import avro, referring


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses, with signs that have to be quoted."""
    return f"orders/é-{secrets.token_hex(4)}"


@pytest.fixture
def client(primary: Address) -> SchemaRegistryClient:
    return primary.client()


def named(subject: str) -> str:
    """A record's name that makes a schema this test's own, so that its id is, too."""
    return f"R{subject.rpartition('-')[2]}"


def refused(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    """Return HTTP status and error code."""
    return error.value.http_status_code, error.value.error_code


def test_a_schema_is_registered_and_found_by_all_ways(client, subject):
    text = avro("a", name=named(subject))
    schema_id = client.register_schema(subject, Schema(text, "AVRO"))
    assert client.get_schema(schema_id).schema_str == text
    fresh = client.lookup_schema(subject, Schema(text, "AVRO"))
    assert (fresh.schema_id, fresh.version) == (schema_id, 1)
    assert client.get_versions(subject) == [1]
    assert client.get_latest_version(subject).schema.schema_str == text
    assert subject in client.get_subjects()


def test_a_second_subject_with_the_same_schema_has_the_same_id(primary, subject):
    text = avro("a", name=named(subject))
    ids = {primary.client().register_schema(name, Schema(text, "AVRO")) for name in (subject, f"{subject}-2")}
    assert len(ids) == 1
    used = primary.get(f"/schemas/ids/{ids.pop()}/versions")
    assert {each["subject"] for each in used} == {subject, f"{subject}-2"}


def test_references_go_along_and_hold_what_they_refer_to(primary, client, subject):
    used, user = named(subject), f"{named(subject)}User"
    client.register_schema(subject, Schema(avro("a", name=used), "AVRO"))
    reference = SchemaReference(used, subject, 1)
    schema = Schema(referring(user, used), "AVRO", [reference])
    schema_id = client.register_schema(f"{subject}-user", schema)
    fresh = primary.client().get_schema(schema_id)
    assert fresh.references == [reference]
    with pytest.raises(SchemaRegistryError) as error:
        client.delete_subject(subject)
    assert refused(error) == (422, 42206)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}'),
        ("PROTOBUF", 'syntax = "proto3";\n\nmessage Order {\n  string a = 1;\n}\n'),
    ],
)
def test_json_schema_and_protobuf_are_kept_as_they_are_meant(primary, subject, kind, text):
    schema_id = primary.client().register_schema(subject, Schema(text, kind))
    found = primary.client().get_schema(schema_id)
    assert found.schema_type == kind
    # Registered as it is stored, it is the same.
    assert primary.client().register_schema(subject, found) == schema_id


def test_an_incompatible_schema_is_refused_until_its_level_allows_it(client, subject):
    client.register_schema(subject, Schema(avro("a", name=named(subject)), "AVRO"))
    wider = Schema(avro("a", "needed", name=named(subject)), "AVRO")
    with pytest.raises(SchemaRegistryError) as error:
        client.register_schema(subject, wider)
    assert refused(error) == (409, 409)
    assert not client.test_compatibility(subject, wider)
    client.set_compatibility(subject, "FORWARD")
    assert client.get_compatibility(subject) == "FORWARD"
    assert client.test_compatibility(subject, wider)
    client.register_schema(subject, wider)
    assert client.get_versions(subject) == [1, 2]


def test_a_registry_that_is_not_the_primary_says_where_the_primary_is(primary, other, subject):
    body = {"schema": avro("a", name=named(subject))}
    for method, path, sent in (
        ("POST", f"/subjects/{subject.replace('/', '%2F')}/versions", body),
        ("DELETE", "/subjects/any", None),
        ("DELETE", "/subjects/any/versions/1", None),
        ("PUT", "/config", {"compatibility": "NONE"}),
        ("DELETE", "/config", None),
        ("PUT", "/mode/any", {"mode": "IMPORT"}),
        ("DELETE", "/mode/any", None),
    ):
        answer = other(method, path, sent)
        assert answer.status_code == 403, (method, path, answer.text)
        said = answer.json()
        assert said["error_code"] == 40301
        assert said["primary_cluster"] == "cluster-1"
        assert said["primary_registry"] == primary.url
        assert primary.url in said["message"]
    assert other.get("/config") == {"compatibilityLevel": "BACKWARD"}


def test_deletions_are_soft_and_then_for_good(primary, client, subject):
    first, second = (Schema(avro("a", *more, name=named(subject)), "AVRO") for more in ((), ("b?",)))
    ids = [client.register_schema(subject, schema) for schema in (first, second)]
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert primary.client().get_schema(ids[0]).schema_str == first.schema_str
    with pytest.raises(SchemaRegistryError) as error:
        client.delete_subject(subject, permanent=True)
    assert refused(error) == (404, 40405)
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as error:
        primary.client().get_schema(ids[0])
    assert refused(error) == (404, 40403)
    assert client.register_schema(subject, first) > max(ids)


def test_modes_and_levels_of_a_subject_are_set_and_taken_back(primary, client, subject):
    path = subject.replace("/", "%2F")
    assert primary("PUT", f"/mode/{path}", {"mode": "READONLY"}).json() == {"mode": "READONLY"}
    with pytest.raises(SchemaRegistryError) as error:
        client.register_schema(subject, Schema(avro("a", name=named(subject)), "AVRO"))
    assert refused(error) == (422, 42205)
    assert primary("DELETE", f"/mode/{path}").json() == {"mode": "READONLY"}
    assert primary("GET", f"/mode/{path}").json()["error_code"] == 40409
    assert primary("PUT", f"/config/{path}", {"compatibility": "FULL"}).json() == {"compatibility": "FULL"}
    assert primary("DELETE", f"/config/{path}").json() == {"compatibilityLevel": "FULL"}
    assert primary("GET", f"/config/{path}").json()["error_code"] == 40408


@pytest.mark.nightly  # smaller ones take the same way
def test_a_schema_of_a_megabyte_goes_through_all_of_it(estate, primary, client, subject):
    text = avro("a", name=named(subject), doc="d" * 1_200_000)
    schema_id = client.register_schema(subject, Schema(text, "AVRO"))
    assert primary.client().get_schema(schema_id).schema_str == text
    with another_api(estate) as api:
        found = settled(lambda: api.registry("cluster-1")("GET", f"/schemas/ids/{schema_id}"), "it is read")
    assert found["schema"] == text


def test_a_serializer_of_the_stock_client_works_with_it(primary, subject):
    text = avro("a", name=named(subject))
    context = SerializationContext(subject, MessageField.VALUE)
    written = AvroSerializer(primary.client(), text)({"a": "x"}, context)
    assert AvroDeserializer(primary.client())(written, context) == {"a": "x"}


def test_the_topic_is_compacted_and_reads_as_confluents(estate: RunningEstate, client, subject):
    text = avro("a", name=named(subject))
    schema_id = client.register_schema(subject, Schema(text, "AVRO"))
    client.delete_subject(subject)
    mine = [
        (json.loads(message.key()), json.loads(message.value()))
        for message in read_all(estate.bootstrap_servers("cluster-1"), TOPIC)
        if message.key() and json.loads(message.key()).get("subject") == subject
    ]
    assert mine == [
        (
            {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1},
            {"subject": subject, "version": 1, "id": schema_id, "schema": text, "deleted": False},
        ),
        (
            {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0},
            {"subject": subject, "version": 1},
        ),
    ]


def test_records_that_are_none_are_passed_over(estate: RunningEstate, primary, client, subject):
    servers = estate.bootstrap_servers("cluster-1")
    client.register_schema(f"{subject}-before", Schema(avro("a", name=named(subject)), "AVRO"))
    garbage = [
        {"key": b"\x00\x01", "value": b"\xff"},
        {"key": b"{}", "value": b"{}"},
        {"key": b'{"keytype":"SCHEMA","subject":"of-nobody","version":"one","magic":1}', "value": b"{}"},
        {"key": b'{"keytype":"OF_TOMORROW","magic":7}', "value": b"[]"},
    ]
    produce(servers, TOPIC, garbage)
    assert client.register_schema(subject, Schema(avro("b", name=named(subject)), "AVRO"))
    assert primary.get("/subjects?subjectPrefix=of-nobody&deleted=true") == []
    told = http.get(f"{estate.url}/metrics", headers={"Authorization": f"Bearer {estate.token}"}).text
    count = next(line for line in told.splitlines() if 'unreadable_records{cluster="cluster-1"}' in line)
    assert float(count.split()[-1]) >= 3
    assert 'treeline_schema_topic_read{cluster="cluster-1"} 1.0' in told


def written_by_others(subject: str) -> list[dict[str, bytes | None]]:
    """Three versions of a subject as Confluent's registry leaves them after some years, ids of long ago."""
    texts = ['"string"', '{"type":"record","name":"R","fields":[]}', '{"type":"object"}']
    key = '{{"keytype":"SCHEMA","subject":"{0}","version":{1},"magic":1}}'
    value = '{{"subject":"{0}","version":{1},"id":{2},"md5":"x","schema":{3},"deleted":{4},"ts":1700000000000}}'
    rows = [(1, 900_001, texts[0], "true"), (3, 900_003, texts[2], "false"), (2, 900_002, texts[1], "false")]
    records: list[dict[str, bytes | None]] = [{"key": b'{"keytype":"NOOP","magic":0}', "value": None}]
    records += [
        {
            "key": key.format(subject, number).encode(),
            "value": value.format(subject, number, schema_id, json.dumps(text), deleted).encode(),
        }
        for number, schema_id, text, deleted in rows
    ]
    config = f'{{"keytype":"CONFIG","subject":"{subject}","magic":0}}'
    records.append({"key": config.encode(), "value": b'{"compatibilityLevel":"FULL_TRANSITIVE","alias":null}'})
    return records


def test_what_another_registry_wrote_is_served(estate: RunningEstate, other: Address):
    subject = f"theirs-{secrets.token_hex(4)}"
    servers = estate.bootstrap_servers("cluster-3")
    if TOPIC not in topics(servers):
        create_topic(servers, TOPIC, cleanup_policy="compact")
    produce(servers, TOPIC, written_by_others(subject))
    eventually(lambda: subject in other.get("/subjects"), "the records are read")
    assert other.get(f"/subjects/{subject}/versions") == [2, 3]
    assert other.get(f"/subjects/{subject}/versions?deleted=true") == [1, 2, 3]
    assert other.get("/schemas/ids/900001") == {"schema": '"string"'}
    eventually(lambda: other("GET", f"/config/{subject}").is_success, "the configuration is read")
    assert other.get(f"/config/{subject}")["compatibilityLevel"] == "FULL_TRANSITIVE"
    # What is there is no write, on whichever cluster.
    assert other.client().register_schema(subject, Schema('{"type":"record","name":"R","fields":[]}')) == 900_002


def test_what_another_registry_wrote_under_other_keys_is_deleted_for_good_there_too(
    estate: RunningEstate, primary, client, subject
):
    config = f"/config/{quote(subject, safe='')}"
    servers = estate.bootstrap_servers("cluster-1")
    # As Karapace wrote them before it had Confluent's order of fields.
    keys = [f'{{"subject": "{subject}", "version": 1, "magic": 1, "keytype": "SCHEMA"}}'.encode()]
    keys.append(f'{{"subject": "{subject}", "magic": 0, "keytype": "CONFIG"}}'.encode())
    text = json.dumps({"schema": avro("a", name=named(subject))})[1:-1]
    # The next one after those given would be another test's, by the time that this one is written.
    schema_id = 1_000_000 + secrets.randbelow(1_000_000_000)
    values = [f'{{"subject":"{subject}","version":1,"id":{schema_id},{text},"deleted":false}}'.encode()]
    values.append(b'{"compatibilityLevel":"FULL"}')
    produce(servers, TOPIC, [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)])
    eventually(lambda: primary("GET", config).is_success, "it is read")
    assert primary("PUT", config, {"compatibility": "NONE"}).is_success
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    last = {message.key(): message.value() for message in read_all(servers, TOPIC)}
    assert last[keys[0]] is None
    assert json.loads(last[keys[1]] or b"{}").get("compatibilityLevel") != "FULL"


# Another process reads the topic in test_a_schema_of_a_megabyte; a killed API in test_registry_outages.
@pytest.mark.nightly
def test_after_a_kill_another_process_knows_everything_from_the_topic(estate: RunningEstate, subject):
    with another_api(estate) as api:
        address = api.registry("cluster-1")
        client = address.client()
        ids = [
            client.register_schema(
                f"{subject}-{number}", Schema(avro("a", name=f"{named(subject)}N{number}"), "AVRO")
            )
            for number in range(5)
        ]
        client.delete_subject(f"{subject}-0")
        paths = [f"/schemas/ids/{schema_id}/versions?deleted=true" for schema_id in ids]
        before = [address.get(path) for path in paths]
        listed = address.get("/subjects?deleted=true")
        api.kill()
        api.start()
        assert set(listed) <= set(settled(lambda: address("GET", "/subjects?deleted=true"), "it is read"))
        assert before == [address.get(path) for path in paths]


@pytest.mark.nightly
def test_two_processes_that_write_at_once_give_no_id_twice(estate: RunningEstate, primary: Address, subject):
    each_writes = 25
    with another_api(estate) as api:
        addresses = [primary, api.registry("cluster-1")]
        settled(lambda: addresses[1]("GET", "/subjects"), "the second process has read the topic")

        def register(number: int) -> tuple[str, int]:
            # Both processes register both kinds: those that only they have, and those that the other has as well.
            name = f"{named(subject)}S{number // 2 if number % 4 < 2 else number}"
            schema = Schema(avro("a", name=name), "AVRO")
            return name, addresses[number % 2].client().register_schema(f"{subject}-{number % 7}-{name}", schema)

        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(register, range(each_writes * 2)))
        ids: dict[str, set[int]] = {}
        for name, schema_id in given:
            ids.setdefault(name, set()).add(schema_id)
        assert all(len(found) == 1 for found in ids.values()), "one schema has two ids"
        assert len({min(found) for found in ids.values()}) == len(ids), "one id has two schemas"
        for address in addresses:
            for name, found in ids.items():
                assert json.loads(address.get(f"/schemas/ids/{min(found)}")["schema"])["name"] == name
    contents: dict[int, Content] = {}
    for message in read_all(estate.bootstrap_servers("cluster-1"), TOPIC):
        key = json.loads(message.key()) if message.key() and message.key()[:1] == b"{" else {}
        if str(key.get("subject", "")).startswith(subject) and message.value():
            version = decode(message.key(), message.value())
            assert isinstance(version, SchemaVersion)
            assert contents.setdefault(version.id, version.content) == version.content


def test_a_record_of_a_writer_that_was_overtaken_changes_nothing_and_is_repaired(estate, primary, client, subject):
    servers = estate.bootstrap_servers("cluster-1")
    text = avro("a", name=named(subject))
    schema_id = client.register_schema(subject, Schema(text, "AVRO"))
    # The same id for another schema: decided by one that did not know of the first, and appended after it.
    late = SchemaVersion(subject=f"{subject}-late", version=1, id=schema_id, content=Content(text='"int"'))
    key, value = encode(late)
    produce(servers, TOPIC, [{"key": key, "value": value}])
    client.register_schema(f"{subject}-next", Schema(avro("next", name=named(subject)), "AVRO"))
    assert primary.get(f"/schemas/ids/{schema_id}") == {"schema": text}
    assert f"{subject}-late" not in primary.get("/subjects?deleted=true")
    values = [message.value() for message in read_all(servers, TOPIC) if message.key() == key]
    assert values == [value, None]


def test_a_reference_to_what_is_not_there_is_refused(client, subject):
    schema = Schema(referring("A", "B"), "AVRO", [SchemaReference("B", f"{subject}-nobody", 1)])
    with pytest.raises(SchemaRegistryError) as error:
        client.register_schema(subject, schema)
    assert refused(error) == (422, 42201)
