"""Pages of tenants, environments and streams, and their forms, on a control plane whose clusters are all away."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.commands.shell.declared import read_file
from backend.domain.tenants.stream_records import RecordApplied, RecordApplyFailed
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import (
    API_PROD,
    FORMS,
    PROD,
    STREAM,
    Visitor,
    add_clusters,
    code,
    head,
    hidden,
    record,
    rows,
    said,
    values,
    visitor,
)
from tests.support.database.postgres import Database

ORDERS: dict[str, Any] = {"instance": "retail", "environment": "prod", "stream": "orders"}


# --- forms


def test_from_nothing_to_a_stream(console: Console) -> None:
    add_clusters(console)
    operator = visitor(console, "operator")
    assert "create the first one" in said(operator.get("/tenants"))
    path, where = "/tenants/-new", "/tenants/acme"
    assert operator.confirm(path, name="acme").headers["location"] == where
    assert "Create an instance" in said(operator.get(where))
    assert operator.confirm(f"{where}/-new", name="retail", tree="main").headers["location"] == f"{where}#retail"
    assert "No environments yet" in said(operator.get(where))
    fields = {"name": "prod", "margin_seconds": "30", "record_name_subjects": "refused", "offset_mode": "exact"}
    assert operator.confirm(f"{where}/retail/-new", **fields).headers["location"] == PROD
    assert "No streams yet. Declare one" in said(operator.get(PROD))
    answer = operator.confirm(f"{PROD}/-new", name="orders", **STREAM)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PROD}/orders")
    assert operator.get(f"{PROD}/orders").status_code == 200
    found = console.rest.ok("GET", f"{API_PROD}/streams/orders")
    assert (found["partitions"], found["retention_ms"], found["max_message_bytes"]) == (4, 604_800_000, 1_048_576)
    event = console.rest.ok("GET", "/events?after=0&limit=1000")["items"][-1]
    assert (event["name"], event["metadata"]["actor"]) == ("StreamDeclared", "operator")


@some_now("path", FORMS, now=(0, 3))
def test_a_preview_changes_nothing_and_a_form_sent_twice_does_it_once(acme: Console, path: str) -> None:
    operator, before = visitor(acme, "operator"), head(acme)
    sent = {**hidden(operator.preview(path, **FORMS[path])), "step": "confirm"}
    assert head(acme) == before
    first = operator.client.post(path, data=sent)
    assert first.status_code == 303, said(first)
    after = head(acme)
    assert after["position"] == before["position"] + 1
    second = operator.client.post(path, data=sent)
    # A stream that is deleted is not there to be deleted again.
    assert second.status_code == (404 if path.endswith("-delete") else 303)
    assert head(acme) == after


@some_now("path", FORMS, now=(0, 3))
def test_one_goes_back_from_the_preview_to_the_form_as_it_was(acme: Console, path: str) -> None:
    operator = visitor(acme, "operator")
    sent = hidden(operator.preview(path, **FORMS[path]))
    form = operator.client.post(path, data={**sent, "step": "edit"})
    assert form.status_code == 200
    shown = values(form)
    assert shown or path.endswith("-delete")
    assert shown.items() <= FORMS[path].items()


@some_now(
    "name, status, words",
    [
        ("", 422, "it is empty"),
        ("Orders", 422, "use lower case letters"),
        ("__orders", 422, "kept for internal use"),
        ("a\x00b", 422, "NUL"),
        ("x" * 250, 422, "at most 249"),
        ("x" * 240, 422, "Kafka accepts at most 249"),
        ("orders", 409, "stream acme/retail/prod/orders already exists"),
        ("café", 422, "use lower case letters"),
    ],
    now=(1, 6),
)
def test_a_name_is_refused_while_one_types_and_before_it_is_declared(
    owner: Visitor, name: str, status: int, words: str
) -> None:
    fields = {**STREAM, "name": name}
    block = owner.send(f"{PROD}/-new", step="check", **fields)
    assert block.status_code == 200
    assert "<html" not in block.text
    assert words in said(block)
    for step in ("preview", "confirm"):
        page = owner.send(f"{PROD}/-new", step=step, once="x" * 20, **fields)
        assert page.status_code == status
        assert words in said(page)
        assert 'role="alert"' in page.text


def test_while_one_types_the_names_on_all_clusters_are_shown(owner: Visitor) -> None:
    block = owner.send(f"{PROD}/-new", step="check", name="payments", **STREAM)
    assert "acme/retail/prod/payments can be declared; a topic of 4 partitions follows on 3 clusters" in said(
        block
    )
    assert rows(block, "data-cluster") == {
        "c1": "c1 acme-retail-prod-payments acme-retail-prod-payments -…",
        "c2": "c2 acme-retail-prod-payments acme-retail-prod-payments -…",
        "c3": "c3 acme-prod-payments acme-prod-payments -…",
    }
    taken = owner.send(f"{PROD}/-new", step="check", **{**STREAM, "name": "or.ders", "partitions": "many"})
    assert "Partitions: must be a whole number" in said(taken)
    assert rows(taken, "data-cluster")["c3"].startswith("c3 acme-prod-or.ders")


def test_a_name_that_is_taken_on_one_cluster_is_refused_without_telling_whose_it_is(acme: Console) -> None:
    # On c3 the instance is left out: this would be globex-prod-items there, too.
    acme.rest.ok("POST", "/tenants/globex/instances", {"name": "other"})
    acme.rest.ok("POST", "/tenants/globex/instances/other/environments", {"name": "prod"})
    own = Visitor(acme, "bob", globex="owner").send(
        "/tenants/globex/other/prod/-new", step="check", name="items", **STREAM
    )
    assert "globex/shop/prod/items would both be topic 'globex-prod-items' on c3" in said(own)
    acme.rest.ok("POST", "/tenants", {"name": "globex-prod"})
    acme.rest.ok("POST", "/tenants/globex-prod/instances", {"name": "i"})
    acme.rest.ok("POST", "/tenants/globex-prod/instances/i/environments", {"name": "e"})
    acme.rest.ok("POST", "/tenants/globex/instances/other/environments", {"name": "prod-e"})
    acme.rest.ok(
        "POST", "/tenants/globex/instances/other/environments/prod-e/streams", {"name": "x", "partitions": 1}
    )
    other = Visitor(acme, "eve", **{"globex-prod": "owner"}).send(
        "/tenants/globex-prod/i/e/-new", step="check", name="x", **STREAM
    )
    assert "a stream of another tenant would both be topic" in said(other)
    assert "globex/other" not in said(other)


CALLED = {
    "partitions": "Partitions",
    "retention_ms": "Retention",
    "max_message_bytes": "Maximum message size",
    "min_insync_replicas": "min.insync.replicas",
    "cleanup_policy": "Cleanup policy",
}


@some_now(
    "field, value, words",
    [
        ("partitions", "four", "must be a whole number"),
        ("partitions", "0", "must be from 1 to"),
        ("retention_ms", "a week", "must be like 7 d"),
        ("retention_ms", "7 fortnights", "must be like 7 d"),
        ("max_message_bytes", "1 XiB", "must be like 1 MiB"),
        ("min_insync_replicas", "2", "more than the factor 1"),
        ("cleanup_policy", "burn", "must be one of"),
    ],
    now=(0, 2, 5),
)
def test_what_is_wrong_with_a_field_stands_at_the_field(
    owner: Visitor, field: str, value: str, words: str
) -> None:
    page = owner.send(f"{PROD}/-new", step="preview", **{"name": "payments", **STREAM, field: value})
    assert page.status_code == 422
    at_field = re.search(rf'<small class="wrong" id="wrong-{field}">([^<]*)', page.text)
    assert at_field is not None
    assert words in at_field[1]
    refused = re.search(r'id="refused">([^<]*)', page.text)
    assert refused is not None and field not in refused[1]
    assert refused[1].startswith(f"{CALLED[field]}: ")
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"[^>]*aria-describedby="wrong-{field}', page.text)


def test_a_preview_says_the_same_as_a_file_and_as_a_call_that_do_the_same(
    acme: Console, owner: Visitor, tmp_path: Path
) -> None:
    page = owner.preview(f"{PROD}/-new", **{"name": "payments", **STREAM, "cleanup_policy": "compact"})
    assert "Cleanup policy compact" in said(page)
    assert code(page, "same-command") == "treeline diff -f payments.yaml\ntreeline apply -f payments.yaml"
    file = tmp_path / "payments.yaml"
    file.write_text(code(page, "same-yaml"))
    declared = read_file(file)[-1]
    assert declared.place == "acme/retail/prod/payments"
    command = shlex.split(code(page, "same-curl").replace("\\\n", ""))
    assert command[:4] == ["curl", "-X", "POST", f"$TREELINE_URL/api/v1{API_PROD}/streams"]
    body = json.loads(command[command.index("-d") + 1])
    assert body == {"name": "payments", **declared.body}
    found = acme.rest.ok("POST", f"{API_PROD}/streams?dry_run=true", body)
    owner.confirm(f"{PROD}/-new", **{"name": "payments", **STREAM, "cleanup_policy": "compact"})
    done = acme.rest.ok("GET", f"{API_PROD}/streams/payments")
    del done["replication"], done["drift"]
    assert done | {"position": 0} == found | {"position": 0}


def test_a_change_is_shown_field_by_field_with_before_and_after(acme: Console, owner: Visitor) -> None:
    path = f"{PROD}/orders/-change"
    fields = {**values(owner.get(path)), "cleanup_policy": "delete", "distributed": "yes"}
    page = owner.preview(path, **{**fields, "version": "4", "partitions": "8", "retention_ms": "for ever"})
    shown = rows(page, "data-field")
    assert shown["Partitions"] == "Partitions 4 8"
    assert shown["Retention"] == "Retention 7 d for ever"
    assert shown["Cleanup policy"] == "Cleanup policy delete unchanged"
    assert yaml.safe_load(code(page, "same-yaml"))["tenants"]["acme"]["instances"]["retail"]["environments"] == {
        "prod": {"streams": {"orders": {"partitions": 8, "retention_ms": -1}}}
    }
    assert "-H 'If-Match: \"4\"'" in code(page, "same-curl")
    same = owner.preview(path, **fields, version="4")
    assert "Nothing would change" in said(same)
    assert 'value="confirm"' not in same.text
    fewer = owner.send(path, step="preview", **{**fields, "version": "4", "partitions": "1"})
    assert fewer.status_code == 422
    assert "cannot be reduced" in said(fewer)


@pytest.mark.parametrize("path", [f"{PROD}/-change", f"{PROD}/orders/-change", f"{PROD}/orders/-delete"])
def test_a_form_that_somebody_was_faster_than_shows_what_was_typed_and_goes_on_from_there(
    acme: Console, path: str
) -> None:
    operator = visitor(acme, "operator")
    sent = {**hidden(operator.preview(path, **FORMS[path])), "step": "confirm"}
    if path == f"{PROD}/-change":
        acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 5})
    else:
        acme.rest.ok("PATCH", f"{API_PROD}/streams/orders", {"partitions": 6})
    stale = operator.client.post(path, data=sent)
    assert stale.status_code == 412
    assert "somebody changed it" in said(stale)
    assert values(stale).items() <= FORMS[path].items()
    again = re.search('name="version" value="([0-9]+)"', stale.text)
    assert again is not None
    assert operator.confirm(path, **{**FORMS[path], "version": again[1]}).status_code == 303


# --- progress


def test_the_page_follows_until_all_topics_are_there(database: Database, owner: Visitor) -> None:
    block = owner.get(f"{PROD}/orders/-applied")
    assert "<html" not in block.text
    assert 'hx-trigger="every 2s"' in block.text
    assert 'content="5"' in owner.get(f"{PROD}/orders").text
    for cluster in ("c1", "c2"):
        record(database, RecordApplied(**ORDERS, cluster=cluster, topic_id=cluster, replication_factor=1))
    record(database, RecordApplyFailed(**ORDERS, cluster="c3", reason="no <room> left"))
    block = owner.get(f"{PROD}/orders/-applied")
    assert "Applied on 2 of 3 clusters; 1 failed" in said(block)
    assert rows(block, "data-cluster")["c3"].endswith("failed no <room> left")
    assert "<room>" not in block.text
    assert "failed" in rows(owner.get(f"{PROD}/-streams"), "data-stream")["orders"]
    record(database, RecordApplied(**ORDERS, cluster="c3", topic_id="c3", replication_factor=1))
    for path in (f"{PROD}/orders/-applied", f"{PROD}/-streams"):
        settled = owner.get(path)
        assert "Applied on 3 of 3 clusters" in said(settled)
        assert 'hx-trigger="every' not in settled.text
