"""The registry's HTTP: paths, methods, media types, sizes, access. The catalog is given; no cluster is asked."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.registry import parsing
from backend.registry.app import MOST_BODY_BYTES
from backend.registry.deleting import delete_subject
from backend.registry.formats import schema_types
from backend.registry.records import Reference
from backend.registry.routes import ROUTES
from tests.eventually import eventually
from tests.support.schemas.written_log import WrittenLog, avro, referring
from tests.unit.schemas.http_client import TOKEN, Client, refused

V1 = "application/vnd.schemaregistry.v1+json"
USED = Reference(name="Used", subject="used", version=1)


@pytest.fixture
def log() -> WrittenLog:
    """Subject `a/b` with two versions, `used`, which `user` refers to, and `gone`, which is softly deleted."""
    log = WrittenLog()
    log.register("a/b", avro("x"))
    log.register("a/b", avro("x", "y?"))
    log.register("used", avro("a", name="Used"))
    log.register("user", referring("User", "Used"), USED)
    log.register("gone", avro("a", name="Gone"))
    log.write(delete_subject, "gone", permanent=False)
    return log


@pytest.fixture
def client(log: WrittenLog) -> Iterator[Client]:
    yield Client(log)


READS: list[tuple[str, Any]] = [
    ("", {}),
    ("/", {}),
    ("/schemas/ids/1", {"schema": avro("x")}),
    ("/schemas/ids/1/", {"schema": avro("x")}),
    ("/schemas/ids/1?fetchMaxId=true", {"schema": avro("x"), "maxId": 5}),
    ("/schemas/ids/1?subject=a/b", {"subject": "a/b", "version": 1, "schema": avro("x")}),
    ("/schemas/ids/1?subject=used", {"schema": avro("x")}),
    ("/schemas/ids/4", {"references": [vars(USED)], "schema": referring("User", "Used")}),
    ("/schemas/ids/5", {"schema": avro("a", name="Gone")}),
    ("/schemas/ids/1/subjects", ["a/b"]),
    ("/schemas/ids/5/subjects", []),
    ("/schemas/ids/5/subjects?deleted=true", ["gone"]),
    ("/schemas/ids/1/versions", [{"subject": "a/b", "version": 1}]),
    ("/schemas/ids/5/versions", []),
    ("/schemas/types", ["AVRO", "JSON", "PROTOBUF"]),
    ("/schemas?subjectPrefix=us&latestOnly=true&limit=1", [
        {"subject": "used", "version": 1, "id": 3, "schema": avro("a", name="Used")}
    ]),
    ("/schemas?subjectPrefix=gone", []),
    ("/schemas?subjectPrefix=gone&deleted=true", [
        {"subject": "gone", "version": 1, "id": 5, "schema": avro("a", name="Gone"), "deleted": True}
    ]),
    ("/subjects", ["a/b", "used", "user"]),
    ("/subjects?deleted=true", ["a/b", "gone", "used", "user"]),
    ("/subjects?deletedOnly=true", ["gone"]),
    ("/subjects?subjectPrefix=use&offset=1", ["user"]),
    ("/subjects?subjectPrefix=:*:use&limit=1", ["used"]),
    ("/subjects/a%2Fb/versions", [1, 2]),
    ("/subjects/:.:a%2Fb/versions", [1, 2]),
    ("/subjects/a%2Fb/versions?offset=1&limit=5", [2]),
    ("/subjects/gone/versions?deleted=true", [1]),
    ("/subjects/gone/versions?deletedOnly=true", [1]),
    ("/subjects/gone/versions?deleted=true&deletedAsNegative=true", [-1]),
    ("/subjects/a%2Fb/versions/1", {"subject": "a/b", "version": 1, "id": 1, "schema": avro("x")}),
    ("/subjects/a%2Fb/versions/latest", {"subject": "a/b", "version": 2, "id": 2, "schema": avro("x", "y?")}),
    ("/subjects/a%2Fb/versions/-1", {"subject": "a/b", "version": 2, "id": 2, "schema": avro("x", "y?")}),
    ("/subjects/used/versions/1/referencedby", [4]),
    ("/config", {"compatibilityLevel": "BACKWARD"}),
    ("/config/used?defaultToGlobal=true", {"compatibilityLevel": "BACKWARD"}),
    ("/mode", {"mode": "READWRITE"}),
    ("/mode/used?defaultToGlobal=TRUE", {"mode": "READWRITE"}),
    ("/contexts", ["."]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "answer"), READS, ids=[path for path, _ in READS])
def test_a_read_is_answered_as_clients_expect(client, path, answer):
    assert client.get(path) == answer
    # The second answer is the one that was kept.
    assert client.get(path) == answer


def test_a_schema_alone_is_sent_as_it_is(client):
    for path in ("/schemas/ids/1/schema", "/subjects/a%2Fb/versions/1/schema"):
        assert client("GET", path).text == avro("x")


def test_a_kept_answer_goes_with_the_next_change(client, log):
    assert client.get("/subjects") == ["a/b", "used", "user"]
    with client.mirror.lock.writing():
        log.register("new", avro("new"))
        client.mirror.keep_answer(b"x", b"x" * 20_000_000)  # beyond the bound: all are forgotten
    assert "new" in client.get("/subjects")


def test_a_schema_that_takes_long_to_parse_holds_up_nobody_who_asks_for_what_is_there(client, log, monkeypatch):
    slow, begun, go_on = avro("slow"), threading.Event(), threading.Event()

    def parse(kind, text, *rest, **options):
        if "slow" in text:
            begun.set()
            assert go_on.wait(30)
        return schema_types.parse(kind, text, *rest, **options)

    def change():
        with client.mirror.lock.writing():
            log.register("new", avro("new"))

    monkeypatch.setattr(parsing, "parse", parse)
    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(client, "POST", "/subjects/a%2Fb", {"schema": slow})
        assert begun.wait(30)
        changed = threads.submit(change)
        eventually(lambda: client.mirror.lock._waiting == 1, "a change waits")
        try:
            assert client.get("/subjects") == ["a/b", "used", "user"]
            assert client.get("/schemas/ids/1")["schema"] == avro("x")
            for path in ("/subjects/a%2Fb", "/subjects/a%2Fb/versions"):
                answer = client("POST", path, {"schema": avro("x")})
                assert (answer.status_code, answer.json()["id"]) == (200, 1)
        finally:
            go_on.set()
        assert asked.result(30).json()["error_code"] == 40403
        changed.result(30)
    assert "new" in client.mirror.catalog.subjects


def test_a_registry_tells_who_it_is(client):
    assert client.get("/v1/metadata/id")["scope"]["clusters"]["schema-registry-cluster"] == "c1"
    assert client.get("/v1/metadata/version")["version"]


LOOKED_UP: list[tuple[str, Any, int, int]] = [
    ("/subjects/a%2Fb", {"schema": avro("x")}, 200, 1),
    ("/subjects/nobody", {"schema": avro("x")}, 404, 40401),
    ("/subjects/a%2Fb", {"schema": avro("z")}, 404, 40403),
    ("/subjects/a%2Fb", {"schema": "nonsense"}, 422, 42201),
    ("/subjects/gone", {"schema": avro("a", name="Gone")}, 404, 40401),
    ("/subjects/gone?deleted=true", {"schema": avro("a", name="Gone")}, 200, 5),
    # Clients send what they do not mean as null, 0 or -1.
    ("/subjects/a%2Fb", {"schema": avro("x"), "schemaType": None, "references": None, "metadata": None, "id": -1,
                         "version": 0, "ruleSet": None, "of-tomorrow": 1}, 200, 1),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status", "code"), LOOKED_UP)
def test_a_schema_is_looked_up_in_a_subject(client, path, body, status, code):
    answer = client("POST", path, body)
    if status == 200:
        assert answer.json()["id"] == code
    else:
        refused(answer, status, code)


def test_a_schema_that_is_there_is_registered_without_anybody_being_asked(client):
    assert client("POST", "/subjects/a%2Fb/versions", {"schema": avro("x")}).json() == {"id": 1}


def test_what_has_to_be_written_is_refused_at_once_while_the_cluster_is_away(client):
    client.mirror.reason = "nobody answers"
    answer = client("POST", "/subjects/new/versions", {"schema": avro("x")})
    assert "nobody answers" in refused(answer, 503, 50001)
    assert int(answer.headers["Retry-After"]) > 0


def test_compatibility_is_told_without_registering(client):
    path = "/compatibility/subjects/a%2Fb/versions"
    fits, fits_not = {"schema": avro("x", "z?")}, {"schema": avro("x", "needed")}
    assert client("POST", path, fits).json() == {"is_compatible": True}
    assert client("POST", f"{path}/1?verbose=true", fits).json() == {"is_compatible": True, "messages": []}
    assert client("POST", f"{path}/latest", fits_not).json() == {"is_compatible": False}
    told = client("POST", f"{path}?verbose=true", fits_not).json()
    assert not told["is_compatible"]
    assert "needed" in " ".join(told["messages"])
    assert client("POST", "/compatibility/subjects/new/versions", fits).json() == {"is_compatible": True}
    assert client("POST", "/compatibility/subjects/new/versions/latest", fits).json() == {"is_compatible": True}
    refused(client("POST", f"{path}/9", fits), 404, 40402)
    refused(client("POST", "/compatibility/subjects/new/versions/1", fits), 404, 40402)
    refused(client("POST", path, {"schema": "nonsense"}), 422, 42201)
    told = client("POST", f"{path}?verbose=true", {"schema": "nonsense"}).json()
    assert not told["is_compatible"]
    assert told["messages"]


NOT_FOUND = [
    "/nothing",
    "/schemas/ids",
    "/schemas/ids/x",
    "/schemas/ids/-1",
    "/schemas/ids/99999999999999999999",
    "/schemas/ids/%D9%A1",
    "/subjects/a/b/versions/1/2",
    "/subjects/%FF/versions",
    "/v1/metadata",
]


@pytest.mark.parametrize("path", NOT_FOUND)
def test_an_unknown_path_is_not_found_in_the_form_of_the_registry(client, path):
    refused(client("GET", path), 404, 404)


@pytest.mark.parametrize("template", ROUTES)
def test_a_path_takes_its_methods_and_names_them(client, template):
    path = "/" + template.replace("{subject}", "used").replace("{}", "1")
    for method in ("PATCH", *{"GET", "POST", "PUT", "DELETE"} - ROUTES[template].keys()):
        answer = client(method, path)
        refused(answer, 405, 405)
        assert set(answer.headers["allow"].split(", ")) == ROUTES[template].keys()


def test_an_unknown_cluster_is_not_found(client):
    refused(client("GET", "/../c2/subjects"), 404, 404)


@pytest.mark.parametrize("subject", [":.other:s", "%00", "a%0Ab", "__GLOBAL", "%20"])
def test_what_cannot_be_a_subject_is_none(client, subject):
    refused(client("GET", f"/subjects/{subject}/versions"), 422, 42208)


BODIES: list[tuple[Any, dict[str, str], int, int]] = [
    (b"", {}, 422, 422),
    (b"null", {}, 422, 422),
    (b"[]", {}, 422, 422),
    (b"{", {}, 400, 400),
    (b"\xff", {}, 400, 400),
    (b'{"schema": "\\ud800"}', {}, 400, 400),
    (b'{"schema": "\xed\xa0\x80"}', {}, 400, 400),
    (b"[" * 100_000, {}, 400, 400),
    ({}, {}, 422, 42201),
    ({"schema": ""}, {}, 422, 42201),
    ({"schema": {"type": "string"}}, {}, 422, 42201),
    ({"schema": '"int"', "schemaType": 5}, {}, 422, 42201),
    ({"schema": '"int"', "schemaType": "XML"}, {}, 422, 42201),
    ({"schema": '"int"', "references": {"a": 1}}, {}, 422, 42201),
    ({"schema": '"int"', "references": [{"name": "a", "subject": "b"}]}, {}, 422, 42201),
    ({"schema": '"int"', "references": [{"name": "a", "subject": ":.x:b", "version": 1}]}, {}, 422, 42208),
    ({"schema": '"int"', "metadata": []}, {}, 404, 40403),
    ({"schema": '"int"', "metadata": ["a"]}, {}, 422, 42201),
    ({"schema": '"int"', "id": "7"}, {}, 422, 422),
    ({"schema": '"int"', "version": 2**31}, {}, 422, 422),
    ({"schema": '"int"'}, {"Content-Type": "text/plain"}, 415, 415),
    ({"schema": '"int"'}, {"Content-Type": "application/json; charset=utf-8"}, 404, 40403),
    ({"schema": '"int"'}, {"Content-Type": V1}, 404, 40403),
    ({"schema": '"int"'}, {"Content-Length": str(MOST_BODY_BYTES + 1)}, 413, 413),
]


@pytest.mark.parametrize(("body", "headers", "status", "code"), BODIES, ids=range(len(BODIES)))
def test_a_body_that_is_not_as_it_should_be_is_told(client, body, headers, status, code):
    refused(client("POST", "/subjects/used", body, **headers), status, code)


def test_a_body_without_a_length_is_not_taken_beyond_the_limit(client):
    pieces = (b" " * 65536 for _ in range(MOST_BODY_BYTES // 65536 + 1))
    refused(client("POST", "/subjects/new", pieces), 413, 413)


def test_a_schema_of_a_megabyte_is_looked_up(client):
    wide = avro("x", doc="d" * 1_000_000)
    refused(client("POST", "/subjects/used", {"schema": wide}), 404, 40403)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, V1),
        ("*/*", V1),
        ("application/*", V1),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json, application/json; q=0.5", "application/vnd.schemaregistry+json"),
        (f"text/html, application/json;q=0.1, {V1};q=0.9", V1),
        ("text/html, */*;q=0.1", V1),
    ],
)
def test_answers_have_the_type_that_the_caller_likes_best(client, accept, media_type):
    answer = client("GET", "/subjects", **({"Accept": accept} if accept else {}))
    assert answer.headers["content-type"] == media_type


def test_a_caller_who_takes_no_json_gets_none(client):
    refused(client("GET", "/subjects", Accept="text/html"), 406, 406)


def test_every_answer_carries_what_the_gate_adds(client):
    for answer in (client("GET", "/subjects", X_Request_Id="mine-1"), client("GET", "/x", X_Request_Id="mine-1")):
        assert answer.headers["x-request-id"] == "mine-1"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client("GET", "/subjects", X_Request_Id="a b").headers["x-request-id"] != "a b"


def test_head_has_no_body(client):
    answer = client("HEAD", "/schemas/ids/1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == len(client("GET", "/schemas/ids/1").content)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (None, False),
        ("", False),
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        ("Bearer another", False),
        ("Bearer", False),
        (basic("anybody", TOKEN), True),
        (basic("", TOKEN), True),
        (basic(TOKEN, ""), False),
        (basic("anybody", "another"), False),
        ("Basic %%%", False),
        ("Basic /////w==", False),
        (f"Digest {TOKEN}", False),
    ],
)
def test_without_the_setting_a_token_is_needed(log, authorization, admitted):
    client = Client(log, registry_open=False)
    answer = client("GET", "/subjects", **({} if authorization is None else {"Authorization": authorization}))
    if admitted:
        assert answer.status_code == 200
    else:
        refused(answer, 401, 401)
        assert "Bearer" in answer.headers["www-authenticate"]
        assert TOKEN not in answer.text


def test_while_there_is_no_token_nobody_has_it(log):
    client = Client(log, registry_open=False, admin_token=None)
    refused(client("GET", "/subjects", Authorization="Bearer None"), 401, 401)
    refused(client("GET", "/subjects", Authorization="Bearer "), 401, 401)


def test_before_the_topic_was_read_nothing_is_answered(client):
    client.mirror.ready, client.mirror.reason = False, "nobody answers"
    answer = client("GET", "/subjects")
    assert "nobody answers" in refused(answer, 503, 50002)
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("server", "client", "headers"),
    [
        ("10.1.0.7", "127.0.0.1", {}),
        ("127.0.0.1", "10.1.0.8", {}),
        ("127.0.0.1", "127.0.0.1", {"X_Forwarded_For": "127.0.0.1"}),
        ("127.0.0.1", "127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
    ],
)
def test_an_open_registry_is_never_open_on_another_address_or_by_a_proxy(
    log: WrittenLog, server: str, client: str, headers: dict[str, str]
) -> None:
    asked = Client(log, server=server, client=client, registry_open=True)
    refused(asked("GET", "/subjects", **headers), 401, 401)
    assert asked("GET", "/subjects", Authorization=f"Bearer {TOKEN}", **headers).status_code == 200
    assert Client(log, registry_open=True)("GET", "/subjects").status_code == 200
