"""Clusters are made known, described anew and forgotten by forms; their secrets are shown on none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from backend.domain.base.errors import ClusterUnreachable, FieldError
from backend.kafka.base.probe import ClusterFacts
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, rows, said, values, visitor
from tests.support.database.postgres import Database

NEW = "/clusters/-new"
DEFAULT = "{tenant}-{instance}-{environment}-{topic}"
SPARE = {
    "name": "spare",
    "bootstrap_servers": "127.0.0.1:9",
    "zone": "az1",
    "topic_format": "{tenant}.{environment}.{topic}",
    "group_format": "{tenant}-{instance}-{environment}-{group}",
    "subject_format": DEFAULT,
    "properties": "security.protocol=SASL_SSL\nsasl.password=${env:SPARE_PASSWORD}",
}


@pytest.fixture
def operator(acme: Console, monkeypatch: pytest.MonkeyPatch) -> Visitor:
    monkeypatch.setenv("SPARE_PASSWORD", "secret")
    return visitor(acme, "operator")


def test_one_that_does_not_answer_is_refused_unless_that_is_accepted(acme: Console, operator: Visitor) -> None:
    answer = operator.send(NEW, step="preview", **SPARE)
    assert answer.status_code == 422 and "no Kafka cluster answers at 127.0.0.1:9" in said(answer)
    assert 'id="wrong-bootstrap_servers"' in answer.text
    preview = operator.preview(NEW, **SPARE, accept_offline="yes")
    assert "The cluster does not answer:" in said(preview) and "with number 4 in copy origins" in said(preview)
    assert [each["name"] for each in acme.rest.ok("GET", "/clusters")["items"]] == ["c1", "c2", "c3"]
    done = operator.confirm(NEW, **SPARE, accept_offline="yes")
    assert (done.status_code, done.headers["location"]) == (303, "/clusters/spare")
    found = acme.rest.ok("GET", "/clusters/spare")
    assert (found["zone"], found["topic_format"]) == ("az1", "{tenant}.{environment}.{topic}")
    assert found["properties"] == {"security.protocol": "SASL_SSL", "sasl.password": "***"}


def test_the_preview_says_what_names_are_there_and_the_same_change_elsewhere(operator: Visitor) -> None:
    preview = operator.preview(NEW, **SPARE, accept_offline="yes")
    names = rows(preview, "data-cluster")
    assert (
        names["acme/retail/prod/orders"] == "acme/retail/prod/orders acme.prod.orders acme-retail-prod-orders -…"
    )
    assert names["group billing of acme/retail/prod"].endswith("acme-retail-prod-billing")
    assert "sasl.password=***" in rows(preview, "data-field")["Client properties"]
    assert "  spare:\n    bootstrap_servers: 127.0.0.1:9\n" in code(preview, "same-yaml")
    assert "accept_offline: true" in code(preview, "same-yaml")
    assert code(preview, "same-command") == "treeline apply -f spare.yaml"
    assert '"name": "spare"' in code(preview, "same-curl")


def test_what_the_cluster_says_of_itself_is_told_before_it_is_added(
    acme: Console, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answers(servers: str, properties: object, seconds: float) -> ClusterFacts:
        asked.append(servers)
        return ClusterFacts("K9", (1, 2, 3))

    monkeypatch.setattr("backend.changes.clusters.probe", answers)
    typed = operator.send(NEW, step="check", **SPARE)
    assert "The preview contacts the cluster" in said(typed) and asked == []
    preview = operator.preview(NEW, **SPARE)
    fields = rows(preview, "data-field")
    assert fields["Kafka cluster id"] == "Kafka cluster id K9"
    assert fields["Brokers that answered"] == "Brokers that answered 3: 1, 2, 3"
    operator.confirm(NEW, **SPARE)
    assert acme.rest.ok("GET", "/clusters/spare")["kafka_cluster_id"] == "K9"
    # The same Kafka cluster by another name is told at the address.
    other = operator.send(NEW, step="preview", **{**SPARE, "name": "again"})
    assert other.status_code == 409 and "the same Kafka cluster as 'spare'" in said(other)


@some_now(
    "wrong, field, told",
    [
        ({"name": "Spare!"}, "name", "cannot name a cluster"),
        ({"name": "c1"}, "name", "cluster 'c1' already exists"),
        ({"topic_format": "{tenant}"}, "topic_format", "topic"),
        ({"properties": "sasl.password=hunter2"}, "properties", "never the secret itself"),
        ({"properties": "plugin.library.paths=/x"}, "properties", "not one of the allowed connection keys"),
        ({"properties": "security.protocol"}, "properties", "line 1 is not key=value"),
        ({"bootstrap_servers": "nowhere"}, "bootstrap_servers", "host:port"),
    ],
    now=(1, 3),
)
def test_what_cannot_be_meant_stands_at_its_field(
    operator: Visitor, wrong: dict[str, str], field: str, told: str
) -> None:
    answer = operator.send(NEW, step="preview", accept_offline="yes", **{**SPARE, **wrong})
    assert answer.status_code in (409, 422) and told in said(answer)
    assert f'id="wrong-{field}"' in answer.text


def test_a_description_is_changed_and_its_secrets_stay(acme: Console, operator: Visitor) -> None:
    operator.confirm(NEW, **SPARE, accept_offline="yes")
    form = operator.get("/clusters/spare/-change")
    assert "SPARE_PASSWORD" not in form.text and "sasl.password=***" in form.text
    given = {**hidden(form), **values(form), "properties": "sasl.password=***\nsecurity.protocol=SASL_SSL"}
    preview = operator.client.post("/clusters/spare/-change", data={**given, "zone": "", "step": "preview"})
    fields = rows(preview, "data-field")
    assert fields["Zone"] == "Zone az1 –" and "unchanged" in fields["Client properties"]
    assert 'id="same-yaml"' not in preview.text, "a file cannot take the zone away"
    assert '"zone": null' in code(preview, "same-curl") and "If-Match" in code(preview, "same-curl")
    done = operator.client.post("/clusters/spare/-change", data={**hidden(preview), "step": "confirm"})
    assert done.headers["location"] == "/clusters/spare"
    assert acme.rest.ok("GET", "/clusters/spare")["zone"] is None
    late = operator.client.post("/clusters/spare/-change", data={**given, "zone": "az7", "step": "preview"})
    assert late.status_code == 412 and "somebody changed it since" in said(late)


def test_secrets_go_to_no_new_address_unless_they_are_given_anew(acme: Console, operator: Visitor) -> None:
    operator.confirm(NEW, **SPARE, accept_offline="yes")
    form = operator.get("/clusters/spare/-change")
    moved = {**hidden(form), **values(form), "bootstrap_servers": "127.0.0.1:11", "accept_offline": "yes"}
    kept = {**moved, "properties": "security.protocol=SASL_SSL\nsasl.password=***"}
    for step in ("check", "preview"):
        answer = operator.client.post("/clusters/spare/-change", data={**kept, "step": step})
        assert "give it again" in said(answer)
    assert answer.status_code == 422 and 'id="wrong-properties"' in answer.text
    anew = {**moved, "properties": SPARE["properties"]}
    assert operator.client.post("/clusters/spare/-change", data={**anew, "step": "preview"}).status_code == 200


def test_formats_do_not_change_while_topics_are_made_from_them(
    acme: Console, operator: Visitor, database: Database
) -> None:
    form = operator.get("/clusters/c1/-change")
    given = {**hidden(form), **values(form), "properties": "", "topic_format": "{tenant}-{topic}"}
    answer = operator.client.post("/clusters/c1/-change", data={**given, "step": "preview"})
    assert answer.status_code == 409 and "its formats cannot change while topics with these names exist" in said(
        answer
    )


def test_a_new_address_is_asked_and_the_present_one_is_not(
    operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def silent(servers: str, properties: object, seconds: float) -> ClusterFacts:
        asked.append(servers)
        raise ClusterUnreachable(
            f"no Kafka cluster answers at {servers}", (FieldError("/bootstrap_servers", "no"),)
        )

    monkeypatch.setattr("backend.changes.clusters.probe", silent)
    form = operator.get("/clusters/c1/-change")
    given = {**hidden(form), **values(form), "properties": ""}
    assert operator.client.post("/clusters/c1/-change", data={**given, "zone": "z", "step": "preview"}).is_success
    assert asked == []
    given["bootstrap_servers"] = "127.0.0.1:8"
    assert operator.client.post("/clusters/c1/-change", data={**given, "step": "preview"}).status_code == 422
    assert asked == ["127.0.0.1:8"]


def test_what_stands_in_the_way_of_a_removal_is_told_in_its_order(acme: Console, operator: Visitor) -> None:
    page = operator.get("/clusters/c1/-remove")
    way = said(page)
    assert way.index("It is the active cluster of 2 environments. Plan switch") < way.index(
        "is unknown: a distributor"
    )
    assert "It is a leaf of the tree. Edit tree" in way
    refused = operator.client.post("/clusters/c1/-remove", data={**hidden(page), "step": "preview"})
    assert refused.status_code == 409 and "c1 is a leaf of tree main" in said(refused)


def test_one_in_no_tree_is_forgotten_by_its_name(acme: Console, operator: Visitor) -> None:
    operator.confirm(NEW, **SPARE, accept_offline="yes")
    page = operator.get("/clusters/spare/-remove")
    assert "It is in no tree" in said(page)
    preview = operator.client.post("/clusters/spare/-remove", data={**hidden(page), "step": "preview"})
    assert code(preview, "same-command") == "treeline delete cluster spare"
    sent = {**hidden(preview), "step": "confirm"}
    wrong = operator.client.post("/clusters/spare/-remove", data={**sent, "confirm": "c1"})
    assert wrong.status_code == 422 and "type spare" in said(wrong)
    done = operator.client.post("/clusters/spare/-remove", data={**sent, "confirm": "spare"})
    assert (done.status_code, done.headers["location"]) == (303, "/clusters")
    assert operator.get("/clusters/spare").status_code == 404


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_has_no_forms(acme: Console, kind: str) -> None:
    who = visitor(acme, kind)
    for path in (NEW, "/clusters/c1/-change", "/clusters/c1/-remove"):
        assert who.get(path).status_code == 403
    if kind == "viewer":
        assert 'class="strong off"' in who.get("/clusters").text


def test_by_keyboard_with_the_names_as_one_types(acme: Console, open_page) -> None:
    page = open_page(acme, "/clusters")
    page.get_by_role("link", name="Add cluster").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("spare")
    page.keyboard.press("Tab")
    page.keyboard.type("127.0.0.1:9")
    expect(page.locator("#verdict")).to_contain_text("spare will be added, with number 4")
    page.get_by_label("Topics").fill("{tenant}_{environment}_{topic}")
    expect(page.locator("tr[data-cluster='acme/retail/prod/orders']")).to_contain_text("acme_prod_orders")
    page.get_by_label("Allow an offline cluster").check()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Add cluster").click()
    expect(page).to_have_title("spare · Treeline")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, open_page, folder: Path | None) -> None:
    page = open_page(acme, NEW)
    page.get_by_label("Name").fill("spare")
    page.get_by_label("Bootstrap servers").fill("127.0.0.1:9")
    expect(page.locator("#verdict")).to_contain_text("spare will be added")
    taken(page, "cluster-form", folder)
    page.get_by_label("Allow an offline cluster").check()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Add cluster").wait_for()
    taken(page, "cluster-preview", folder)
    page.goto(f"{acme.url}/clusters/c1/-remove")
    taken(page, "cluster-remove", folder)
    page.goto(f"{acme.url}/clusters/c1/-change")
    taken(page, "cluster-change", folder)
