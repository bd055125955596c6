"""Pages of schemas over catalogs that were read, while all clusters are away, and the form that registers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from backend.queries.schemas.schemas import schema_targets
from backend.registry.directory import Registry
from backend.registry.records import ConfigSet, Content, Record, Reference, SchemaVersion, VersionGone
from backend.web.words.differences import MOST_LINES, hunks
from tests.eventually import eventually
from tests.support.api import http
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import API_PROD, Visitor, add_clusters, code, hidden, rows, said
from tests.support.database.postgres import Database

MINE, THEIRS, NOBODYS = "acme-retail-prod-orders-value", "globex-shop-prod-items-value", "com.acme.Order"
NEW = "/schemas/-new"


def avro(*fields: str, name: str = "Order", **more: Any) -> str:
    """A record whose fields are texts; those that end in ? may be missing."""
    shown = [
        {"name": f.rstrip("?"), "type": "string", **({"default": ""} if f.endswith("?") else {})} for f in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": shown, **more})


def version(subject: str, number: int, schema_id: int, text: str, *references: Reference) -> SchemaVersion:
    return SchemaVersion(
        subject=subject, version=number, id=schema_id, content=Content(text=text, references=references)
    )


def was_read(console: Console, cluster: str, *records: Record) -> Registry:
    """Let the cluster's registry know these records, as after its topic was read to the end."""
    assert console.registries is not None
    console.registries.refresh()
    registry = console.registries.find(cluster)
    assert registry is not None
    with registry.mirror.lock.writing():
        for each in records:
            assert registry.mirror.catalog.apply(each)
    registry.mirror.ready = True
    return registry


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """Serve a console with registries, which read what they can."""
    with serve_here(database.url, with_schemas=True) as running:
        yield running


@pytest.fixture
def acme(console: Console) -> Iterator[Console]:
    """Give c1, the primary, subjects of acme, of globex and of nobody; c3 those of acme, too."""
    first, second = avro("id"), avro("id", "note?")
    was_read(
        console,
        "c1",
        version(MINE, 1, 1, first),
        version(MINE, 2, 2, second),
        version(THEIRS, 1, 3, avro("secret")),
        version(NOBODYS, 1, 4, avro("loose")),
        ConfigSet(subject=MINE, fields={"compatibilityLevel": "FULL"}),
    )
    was_read(console, "c3", version("acme-prod-orders-value", 1, 1, first))
    yield console


@pytest.fixture
def member(acme: Console) -> Visitor:
    return Visitor(acme, "ada", acme="member")


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return Visitor(acme, "op", "operator")


# --- reading


def test_subjects_of_the_primary_are_listed_with_what_they_follow(operator: Visitor, member: Visitor) -> None:
    page = operator.get("/schemas")
    assert rows(page, "data-subject") == {
        MINE: f"{MINE} acme/retail/prod/orders AVRO 2 2 2 FULL subject level",
        THEIRS: f"{THEIRS} globex/shop/prod/items AVRO 1 1 3 BACKWARD",
        NOBODYS: f"{NOBODYS} no stream AVRO 1 1 4 BACKWARD",
    }
    assert set(rows(operator.get("/schemas?find=globex"), "data-subject")) == {THEIRS}
    assert set(rows(operator.get("/schemas?cluster=c3"), "data-subject")) == {"acme-prod-orders-value"}
    assert set(rows(member.get("/schemas"), "data-subject")) == {MINE, NOBODYS}
    assert "globex" not in member.get("/schemas").text


def test_the_list_is_the_registrys_for_whoever_looks(acme: Console) -> None:
    for tenant, allowed in (("strict", False), ("gone", True)):
        acme.rest.ok("POST", "/tenants", {"name": tenant})
        acme.rest.ok("POST", f"/tenants/{tenant}/instances", {"name": "i"})
        below = f"/tenants/{tenant}/instances/i/environments"
        acme.rest.ok("POST", below, {"name": "e", "record_name_subjects": allowed})
        acme.rest.ok("POST", f"{below}/e/streams", {"name": "s"})
    acme.rest.ok("DELETE", "/tenants/gone/instances/i/environments/e/streams/s?confirm=gone/i/e/s")
    text = avro("id")
    was_read(
        acme,
        "c1",
        *(version(each, 1, 1, text) for each in ("strict-i-e-s-value", "gone-i-e-s-value", "globex-deleted")),
        VersionGone(subject="globex-deleted", version=1),
    )
    names = ("acme-prod-orders", "globex-prod-items", "gone-e-s", "strict-e-s", "com.all")
    was_read(acme, "c3", *(version(f"{each}-value", 1, 1, text) for each in names))
    seen: dict[str, set[str]] = {}
    for kind, role, tenants in (
        ("member", "tenant", {"acme": "member"}),
        ("of-both", "tenant", {"acme": "owner", "globex": "member"}),
        ("of-strict", "tenant", {"strict": "owner"}),
        ("of-gone", "tenant", {"gone": "member"}),
        ("vic", "viewer", {}),
        ("olga", "operator", {}),
        ("adam", "admin", {}),
    ):
        user = Visitor(acme, kind, role, **tenants)
        bearer = {"Authorization": f"Bearer {user.token}"}
        for cluster in ("c1", "c3"):
            registry = http.get(f"{acme.url}/registries/{cluster}/subjects", headers=bearer, timeout=30)
            page = user.get(f"/schemas?cluster={cluster}")
            assert list(rows(page, "data-subject")) == registry.json(), (kind, cluster)
            for subject in registry.json():
                assert user.get(f"/schemas/{cluster}/{subject}").status_code == 200
        seen[kind] = set(rows(user.get("/schemas"), "data-subject"))
    assert seen["of-strict"] == {"strict-i-e-s-value"}
    assert seen["of-gone"] == {"gone-i-e-s-value", NOBODYS}
    assert len(seen["vic"]) == 5
    gone = Visitor(acme, "gina", gone="member").get("/schemas/c1/gone-i-e-s-value")
    assert "Stream gone/i/e/s deleted" in said(gone)
    assert "/tenants/gone/i/e/s" not in gone.text


def test_a_subject_is_shown_with_versions_text_difference_and_names_elsewhere(member: Visitor) -> None:
    page = member.get(f"/schemas/c1/{MINE}")
    text = said(page)
    assert "FULL (subject level)" in text
    assert "Version 2 against version 1" in text
    assert json.loads(code(page, "text"))["fields"][1]["name"] == "note"
    assert page.text.count('class="added"') >= 4
    assert rows(page, "data-cluster") == {
        "c2": f"c2 {MINE} not read yet",
        "c3": "c3 acme-prod-orders-value 1 of 2",
    }
    first = member.get(f"/schemas/c1/{MINE}?version=1")
    assert "against version" not in said(first)
    assert len(json.loads(code(first, "text"))["fields"]) == 1
    compare = f'{MINE}?version=2&amp;against=1" aria-label="Compare version 2 with version 1">Compare</a>'
    assert page.text.count(compare) == first.text.count(compare) == 1, (
        "the earlier version is the one compared with"
    )
    turned = member.get(f"/schemas/c1/{MINE}?version=1&against=2")
    assert 'class="removed"' in turned.text


@pytest.mark.parametrize(
    "path",
    [
        f"/schemas/c1/{THEIRS}",
        "/schemas/c1/nothing",
        "/schemas/c9/x",
        "/schemas?cluster=c9",
    ],
)
def test_what_a_member_may_not_know_of_is_unknown(member: Visitor, path: str) -> None:
    answer = member.get(path)
    assert answer.status_code == 404
    assert "there is no" in said(answer)


def test_anothers_subject_and_one_that_is_not_there_get_the_same_words(member: Visitor, operator: Visitor) -> None:
    theirs, none = member.get(f"/schemas/c1/{THEIRS}"), operator.get(f"/schemas/c1/{THEIRS}2")
    assert said(theirs) == said(none).replace(f"{THEIRS}2", THEIRS)


@pytest.mark.parametrize(("query", "status"), [("version=7", 404), ("version=x", 422), ("against=0", 422)])
def test_a_version_that_is_none_is_refused(member: Visitor, query: str, status: int) -> None:
    assert member.get(f"/schemas/c1/{MINE}?{query}").status_code == status


def test_references_lead_to_what_one_may_see(acme: Console, member: Visitor, operator: Visitor) -> None:
    to = Reference(name="theirs", subject=THEIRS, version=1), Reference(name="mine", subject=MINE, version=1)
    was_read(acme, "c1", version("acme-retail-prod-orders-key", 1, 9, avro("k", name="Key"), *to))
    page = said(member.get("/schemas/c1/acme-retail-prod-orders-key"))
    assert f"mine : {MINE} version 1" in page
    assert "theirs : a subject that you may not see" in page
    assert THEIRS not in page
    assert f"theirs : {THEIRS} version 1" in said(operator.get("/schemas/c1/acme-retail-prod-orders-key"))
    assert "Referenced by acme-retail-prod-orders-key" in said(member.get(f"/schemas/c1/{MINE}?version=1"))


def test_targets_are_shown_with_the_conflicts_that_one_may_know_of(
    database: Database, member: Visitor, operator: Visitor
) -> None:
    conflicts = [
        {"kind": "id-taken", "subject": subject, "version": 1, "schema_id": 5, "detail": f"id 5 is of {THEIRS}"}
        for subject in (MINE, THEIRS, NOBODYS)
    ]
    with database.engine.begin() as connection:
        for cluster, found in (("c2", conflicts), ("c3", [])):
            connection.execute(
                sa.insert(schema_targets).values(
                    cluster=cluster,
                    primary_cluster="c1",
                    state="degraded" if found else "blocked",
                    reason=None if found else "10.0.0.3:9092 does not answer",
                    subjects=3,
                    behind=0,
                    conflicts=found,
                    written_at=datetime.now(UTC),
                )
            )
    everything = operator.get("/schemas")
    assert everything.text.count("data-conflict") == 3
    assert "10.0.0.3" in said(everything)
    assert f"{MINE} version 1: id 5 is of {THEIRS}" in said(everything)
    mine = member.get("/schemas")
    assert mine.text.count("data-conflict") == 2
    assert f"{MINE} version 1: its schema id belongs to another schema there" in said(mine)
    assert THEIRS not in mine.text
    assert "10.0.0.3" not in mine.text


def test_clusters_that_were_not_read_and_a_missing_tree_are_said(console: Console) -> None:
    operator = Visitor(console, "op", "operator")
    assert "there is no tree yet" in said(operator.get("/schemas"))
    add_clusters(console)
    page = operator.get("/schemas")
    assert page.status_code == 200
    assert "the schemas of c1 have not been read yet" in said(page)
    assert operator.get("/schemas/c1/anything").status_code == 503


def test_pages_of_schemas_need_a_tenant_or_more(acme: Console) -> None:
    nobody = Visitor(acme, "nobody")
    for path in ("/schemas", f"/schemas/c1/{MINE}", NEW):
        assert nobody.get(path).status_code == 403


# --- registering


def test_the_form_begins_with_the_latest_version_and_says_what_would_come(member: Visitor) -> None:
    form = member.get(f"{NEW}?subject={MINE}")
    assert '"note"' in form.text.replace("&#34;", '"')
    fields = {"subject": MINE, "kind": "AVRO", "schema": avro("id", "note?", "place?")}
    block = member.send(NEW, step="check", **fields)
    assert (
        "The schema can be registered as version 3 with id 5: it is FULL-compatible with the registered versions"
        in said(block)
    )
    page = member.preview(NEW, **fields)
    assert rows(page, "data-field")["Id"] == "Id 5"
    assert rows(page, "data-cluster")["c3"] == "c3 acme-prod-orders-value"
    assert 'class="added"' in page.text
    assert f"$TREELINE_URL/registries/c1/subjects/{MINE}/versions" in code(page, "same-curl")
    there = member.preview(NEW, **{**fields, "schema": avro("id", "note?")})
    assert "The schema is already registered, as version 2 with id 2" in said(there)


@pytest.mark.parametrize(
    ("schema", "status", "words"),
    [
        (avro("id", "must"), 409, "not FULL-compatible"),
        ('{"type": "recrod"}', 422, "Invalid schema"),
        ("{", 422, "The schema is not JSON"),
        ("", 422, "the field schema is missing"),
    ],
)
def test_a_schema_that_is_refused_stays_in_the_form_with_the_reasons(
    member: Visitor, schema: str, status: int, words: str
) -> None:
    fields = {"subject": MINE, "kind": "AVRO", "schema": schema}
    assert words in said(member.send(NEW, step="check", **fields))
    page = member.send(NEW, step="preview", **fields)
    assert page.status_code == status
    assert words in said(page)
    assert 'id="wrong-schema"' in page.text


def test_what_the_registry_would_refuse_is_refused_by_its_status_and_nothing_is_told(
    acme: Console, member: Visitor
) -> None:
    acme.rest.ok(
        "DELETE", "/tenants/globex/instances/shop/environments/prod/streams/items?confirm=globex/shop/prod/items"
    )
    strict = Visitor(acme, "sue", acme="member")
    for user, refused, status in (
        (member, (THEIRS,), 404),
        (strict, (THEIRS, NOBODYS, "nothing", "globex-shop-prod-items-new"), 422),
    ):
        if user is strict:
            acme.rest.ok("PATCH", API_PROD, {"record_name_subjects": False})
        told = set()
        for subject in refused:
            fields = {"subject": subject, "kind": "AVRO", "schema": avro("id")}
            answers = [
                user.send(NEW, step=step, once="x" * 20, **fields) for step in ("check", "preview", "confirm")
            ]
            assert [answer.status_code for answer in answers] == [200, status, status]
            bearer = {"Authorization": f"Bearer {user.token}"}
            address = f"{acme.url}/registries/c1/subjects/{subject}/versions"
            by_rest = http.post(address, json={"schema": avro("id")}, headers=bearer, timeout=30)
            assert by_rest.status_code == status
            assert 'id="wrong-subject"' in answers[1].text
            told.add(said(answers[1]).replace(subject, "X"))
        assert len(told) == 1
    assert "record_name_subjects" in told.pop()


def test_shared_subjects_are_registered_by_members_and_refer_to_shared_ones_only(member: Visitor) -> None:
    fields = {"subject": NOBODYS, "kind": "AVRO", "schema": avro("loose", "more?")}
    assert "The schema can be registered as version 2" in said(member.preview(NEW, **fields))
    refers = member.send(NEW, step="preview", **{**fields, "references": f"com.acme.Mine {MINE} 1"})
    assert refers.status_code == 422
    assert "subjects by record name only" in said(refers)
    assert "Register version" in said(member.get(f"/schemas/c1/{NOBODYS}"))


def test_a_reference_to_anothers_subject_is_one_to_what_is_not_there(member: Visitor) -> None:
    words = []
    for subject in (THEIRS, "acme-retail-prod-orders-nothing"):
        answer = member.send(
            NEW,
            step="preview",
            subject=MINE,
            kind="AVRO",
            schema=avro("id"),
            references=f"com.acme.Other {subject} 1",
        )
        assert answer.status_code == 422
        words.append(said(answer).replace(subject, "X"))
    assert words[0] == words[1]
    wrong = member.send(NEW, step="preview", subject=MINE, kind="AVRO", schema=avro("id"), references="one two")
    assert "write a reference per line" in said(wrong)


def test_a_viewer_may_not_register(acme: Console) -> None:
    viewer = Visitor(acme, "vic", "viewer")
    assert viewer.get(NEW).status_code == 403
    assert f'href="{NEW}' not in viewer.get("/schemas").text
    assert viewer.send(NEW, step="confirm", subject=MINE, kind="AVRO", schema=avro("id")).status_code == 403


def test_a_form_that_no_page_of_ours_sent_registers_nothing(member: Visitor) -> None:
    data = {"step": "confirm", "once": "x" * 20, "subject": MINE, "kind": "AVRO", "schema": avro("id", "x?")}
    assert member.client.post(NEW, data=data).status_code == 403
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert member.client.post(NEW, data={"key": member.key, **data}, headers=headers).status_code == 403


def test_a_cluster_that_is_away_registers_nothing_and_says_so(acme: Console, member: Visitor) -> None:
    assert acme.registries is not None
    registry = acme.registries.find("c1")
    assert registry is not None
    eventually(lambda: registry.mirror.reason, "the cluster is known to be away")
    fields = {"subject": MINE, "kind": "AVRO", "schema": avro("id", "x?")}
    answer = member.client.post(NEW, data={**hidden(member.preview(NEW, **fields)), "step": "confirm"})
    assert answer.status_code == 503
    assert "could not be used" in said(answer)


# --- differences


def test_differences_have_the_numbers_of_both_texts() -> None:
    found = hunks("a\nb\nc", "a\nB\nc\nd")
    assert found is not None
    assert [(line.sign, line.before, line.after, line.text) for [lines] in [found] for line in lines] == [
        (" ", 1, 1, "a"),
        ("-", 2, None, "b"),
        ("+", None, 2, "B"),
        (" ", 3, 3, "c"),
        ("+", None, 4, "d"),
    ]
    assert hunks("a", "a") == ()
    assert hunks("a\n" * (MOST_LINES + 1), "a") is None
