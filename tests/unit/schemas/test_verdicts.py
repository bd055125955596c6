"""A schema that cannot be checked gets no verdict; temporary failures differ from permanent ones."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import AnotherCluster, OutcomeUnknown, TopicUnfit
from backend.registry.access import Access
from backend.registry.formats import protobuf_compiler
from backend.registry.formats.schema_model import JSON, PROTOBUF
from backend.registry.records import Content, SchemaVersion
from tests.support.schemas.written_log import WrittenLog, avro
from tests.unit.schemas.http_client import Client, refused

PROTO = 'syntax = "proto3"; message M { string a = 1; }'


class Primary(Access):
    """Writes go to the given log instead of a cluster."""


@pytest.fixture
def client() -> Client:
    """One version each of `avro`, of `json`, which no check is for, and of `spoilt`, which cannot be read."""
    log = WrittenLog()
    log.register("avro", avro("a"))
    log.register("json", '{"type": "object"}', kind=JSON)
    log.append(SchemaVersion(subject="spoilt", version=1, id=9, content=Content(text='{"type": "no type"}')))
    return Client(log, Primary)


@pytest.mark.parametrize("verbose", ["", "?verbose=true", "?verbose=false"])
@pytest.mark.parametrize("path", ["", "/latest", "/1"])
@pytest.mark.parametrize(
    ("subject", "sent", "why"),
    [
        ("json", {"schema": '{"type": "string"}', "schemaType": JSON}, "BACKWARD cannot be checked"),
        ("spoilt", {"schema": avro("a")}, "version 1 cannot be read"),
    ],
)
def test_what_cannot_be_checked_is_refused_whether_it_is_asked_for_in_words_or_not(
    client: Client, subject: str, sent: dict[str, str], why: str, path: str, verbose: str
):
    answer = client("POST", f"/compatibility/subjects/{subject}/versions{path}{verbose}", sent)
    assert why in refused(answer, 422, 42203)


def test_what_cannot_be_compared_is_not_registered_and_not_called_incompatible(client: Client):
    answer = client("POST", "/subjects/spoilt/versions", {"schema": avro("a")})
    assert "version 1 cannot be read" in refused(answer, 422, 42203)


@pytest.mark.parametrize(
    "path",
    [
        "/compatibility/subjects/avro/versions",
        "/compatibility/subjects/avro/versions?verbose=true",
        "/subjects/new/versions",
        "/subjects/avro",
    ],
)
def test_a_check_that_was_not_finished_is_no_verdict_and_is_to_be_tried_again(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protobuf_compiler, "_SECONDS", 1e-6)
    answer = client("POST", path, {"schema": PROTO, "schemaType": PROTOBUF})
    assert "took longer" in refused(answer, 503, 50002)
    assert int(answer.headers["Retry-After"]) > 0


def test_a_text_that_is_no_schema_still_fits_nothing(client: Client):
    """Confluent's registry does the same."""
    told = client("POST", "/compatibility/subjects/avro/versions?verbose=true", {"schema": "{}"}).json()
    assert (told["is_compatible"], len(told["messages"])) == (False, 1)


@pytest.mark.parametrize(
    ("error", "is_lasting"),
    [
        (KafkaCallFailed("no answer"), False),
        (KafkaCallFailed("no answer", KafkaError._TIMED_OUT), False),
        (OutcomeUnknown("no answer"), False),
        (KafkaCallFailed("not allowed", KafkaError.TOPIC_AUTHORIZATION_FAILED), True),
        (KafkaCallFailed("not allowed", KafkaError.CLUSTER_AUTHORIZATION_FAILED), True),
        (TopicUnfit("two partitions"), True),
        (AnotherCluster("another one"), True),
    ],
    ids=str,
)
def test_what_passes_by_itself_is_told_apart_from_what_somebody_has_to_change(
    error: KafkaCallFailed, is_lasting: bool
):
    assert error.is_lasting == is_lasting


IN_PATHS = [
    ("GET", "/subjects/{}/versions"),
    ("POST", "/subjects/{}/versions"),
    ("POST", "/subjects/{}"),
    ("DELETE", "/subjects/{}"),
    ("GET", "/subjects/{}/versions/1"),
    ("DELETE", "/subjects/{}/versions/1"),
    ("POST", "/compatibility/subjects/{}/versions"),
    ("GET", "/config/{}"),
    ("PUT", "/config/{}"),
    ("PUT", "/mode/{}"),
]


@pytest.mark.parametrize("subject", [":*:", ":*:avro", ":.other:avro", ":.:", ":.::*:avro", ":.::.other:avro"])
@pytest.mark.parametrize(("method", "path"), IN_PATHS)
def test_contexts_are_never_taken_for_a_part_of_a_subjects_name(
    client: Client, method: str, path: str, subject: str
):
    refused(client(method, path.format(subject), {"schema": avro("b")} if method != "GET" else None), 422, 42208)
    assert client.get("/subjects") == ["avro", "json", "spoilt"]


@pytest.mark.parametrize("subject", [":*:avro", ":.other:avro"])
def test_a_reference_is_to_no_other_context(client: Client, subject: str):
    references = [{"name": "Order", "subject": subject, "version": 1}]
    sent = {"schema": avro("b"), "references": references}
    refused(client("POST", "/subjects/new/versions", sent), 422, 42208)


def test_an_id_is_looked_for_in_the_context_that_is_asked_for(client: Client):
    plain, in_default = (client.get(f"/schemas/ids/1?subject={each}avro") for each in ("", ":.:"))
    assert plain == in_default == client.get("/schemas/ids/1?subject=:*:avro")
    assert (plain["subject"], plain["version"]) == ("avro", 1)
    for tail in ("", "/schema", "/subjects", "/versions"):
        refused(client("GET", f"/schemas/ids/1{tail}?subject=:.other:avro"), 404, 40403)
        assert client("GET", f"/schemas/ids/1{tail}?subject=:.:").status_code == 200


@pytest.mark.parametrize(
    ("prefix", "found"), [(":*:", 3), (":.:", 3), (":*:av", 1), (":.:av", 1), (":.other:", 0), (":*::.:", 0)]
)
def test_lists_are_of_the_contexts_that_are_asked_for(client: Client, prefix: str, found: int):
    assert len(client.get(f"/subjects?subjectPrefix={prefix}")) == found
    assert len(client.get(f"/schemas?subjectPrefix={prefix}")) == found
