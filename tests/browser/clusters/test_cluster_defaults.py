"""A cluster's default replicas: shown on its page, set by a form that counts the topics they apply to."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.tenants.stream_records import RecordApplied
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import (
    API_PROD,
    Visitor,
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

PAGE = "/clusters/c1"
FORM = f"{PAGE}/-defaults"
FACTOR, MINIMUM = "replication_factor", "min_insync_replicas"


@pytest.fixture
def operator(acme: Console, database: Database) -> Visitor:
    """Return an operator who sees c1 with three brokers."""
    record(database, RecordOnline(kafka_cluster_id="K1", brokers=3), CLUSTER, "cluster-c1")
    return visitor(acme, "operator")


def topic(acme: Console, database: Database, name: str, factor: int, **declared: int) -> None:
    """Declare stream whose topic on c1 has so many replicas."""
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": name, **declared})
    place = {"instance": "retail", "environment": "prod", "stream": name}
    record(database, RecordApplied(**place, cluster="c1", topic_id=name, replication_factor=factor))


def preview_of(who: Visitor, factor: str, minimum: str = "") -> str:
    version = hidden(who.get(FORM))["version"]
    return said(who.preview(FORM, version=version, **{FACTOR: factor, MINIMUM: minimum}))


def test_the_page_shows_what_is_set_and_what_comes_of_it(acme: Console, operator: Visitor) -> None:
    assert "Replication factor automatic: 3 min.insync.replicas automatic: 2" in said(operator.get(PAGE))
    unknown = said(operator.get("/clusters/c2"))
    assert "Replication factor automatic min.insync.replicas automatic" in unknown
    before = head(acme)["position"]
    acme.rest.ok("PATCH", PAGE, {"defaults": {FACTOR: 5, MINIMUM: 4}})
    assert "Replication factor 5; effective: 3 min.insync.replicas 4; effective: 3" in said(operator.get(PAGE))
    assert "Replication factor automatic: 3" in said(operator.get(f"{PAGE}?at={before}"))


def test_they_are_set_after_a_preview_and_set_back_by_empty_fields(acme: Console, operator: Visitor) -> None:
    form = operator.get(FORM)
    assert (values(form)[FACTOR], values(form)[MINIMUM]) == ("", "")
    sent = {**hidden(form), FACTOR: "2", MINIMUM: "1"}
    preview = operator.client.post(FORM, data={**sent, "step": "preview"})
    assert "New topics on c1 will have 2 replicas and min.insync.replicas 1" in said(preview)
    assert rows(preview, "data-field")["Replication factor"] == "Replication factor automatic: 3 2"
    assert "c1:\n    defaults:\n      replication_factor: 2\n      min_insync" in code(preview, "same-yaml")
    assert "If-Match" in code(preview, "same-curl")
    assert acme.rest.ok("GET", PAGE)["defaults_set"] == {FACTOR: None, MINIMUM: None}, "nothing was done yet"
    done = operator.client.post(FORM, data={**hidden(preview), "step": "confirm"}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, PAGE)
    assert acme.rest.ok("GET", PAGE)["defaults_set"] == {FACTOR: 2, MINIMUM: 1}
    late = operator.client.post(FORM, data={**sent, "step": "preview"})
    assert late.status_code == 412 and "somebody changed it since" in said(late)
    version = hidden(operator.get(FORM))["version"]
    same = operator.preview(FORM, version=version, **{FACTOR: "2", MINIMUM: "1"})
    assert "Nothing would change" in said(same)
    operator.confirm(FORM, version=version, **{FACTOR: "", MINIMUM: ""})
    assert acme.rest.ok("GET", PAGE)["defaults_set"] == {FACTOR: None, MINIMUM: None}


def test_the_preview_counts_the_topics_that_are_there(
    acme: Console, operator: Visitor, database: Database
) -> None:
    topic(acme, database, "three", 3)
    topic(acme, database, "two", 2)
    topic(acme, database, "declared", 3, replication_factor=3, min_insync_replicas=2)
    topic(acme, database, "factor-declared", 3, replication_factor=3)
    # Of `three` the minimum falls from 2 to 1; that of `two` is 1 already, and the others declare their factor.
    lower = preview_of(operator, "2")
    assert "1 topic already on c1 will keep their present replicas" in lower
    assert "another min.insync.replicas" not in lower, "one of three is to spare before and after"
    both = preview_of(operator, "3", "3")
    assert "3 topics already on c1 will be altered at once, to another min.insync.replicas" not in both
    assert "2 topics already on c1 will be altered at once, to another min.insync.replicas" in both
    assert "1 topic already on c1 will keep their present replicas until a placement is applied" in both
    assert "treeline placement plan --cluster c1 --replication-factor declared" in both
    more = preview_of(operator, "4", "2")
    assert "c1 has 3 brokers: a topic there has one replica per broker" in more


@some_now(
    "wrong, field, told",
    [
        ({FACTOR: "two"}, FACTOR, "must be a whole number"),
        ({FACTOR: "0"}, FACTOR, "Replication factor: must be from 1 to"),
        ({MINIMUM: "-1"}, MINIMUM, "min.insync.replicas: must be from 1 to"),
        (
            {FACTOR: "2", MINIMUM: "3"},
            MINIMUM,
            "3 is more than the replication factor 2: nothing could be produced",
        ),
        ({FACTOR: "1.5", MINIMUM: "x"}, MINIMUM, "must be a whole number"),
    ],
    now=(0, 3),
)
@pytest.mark.parametrize("step", ["preview", "check"])
def test_what_no_topic_could_have_stands_at_its_field(
    operator: Visitor, wrong: dict[str, str], field: str, told: str, step: str
) -> None:
    form = operator.get(FORM)
    answer = operator.client.post(FORM, data={**hidden(form), FACTOR: "", MINIMUM: "", **wrong, "step": step})
    assert told in said(answer) and "defaults/" not in said(answer)
    if step == "preview":
        assert answer.status_code == 422 and f'id="wrong-{field}"' in answer.text
        assert values(answer)[field] == wrong[field], "what was typed is kept"


@some_now("kind", ["viewer", "owner"], now=(1,))
def test_who_may_not_change_the_estate_sets_none(acme: Console, kind: str) -> None:
    who = visitor(acme, kind)
    before = head(acme)
    assert who.get(FORM).status_code == 403
    assert who.send(FORM, step="confirm", **{FACTOR: "2"}).status_code == 403
    assert head(acme) == before


def test_an_undo_keeps_what_was_set_since_of_the_other_default(acme: Console) -> None:
    for defaults in ({FACTOR: 3, MINIMUM: 1}, {FACTOR: 2, MINIMUM: 1}):
        acme.rest.ok("PATCH", PAGE, {"defaults": defaults})
    position = head(acme)["position"]
    acme.rest.ok("PATCH", PAGE, {"defaults": {FACTOR: 2, MINIMUM: 2}})
    acme.rest.ok("POST", f"/events/{position}/undo")
    assert acme.rest.ok("GET", PAGE)["defaults_set"] == {FACTOR: 3, MINIMUM: 2}
    again = acme.rest("POST", f"/events/{position}/undo")
    assert again.status_code == 409 and "replication factor of the default replicas of c1 is 3 now" in again.text


@pytest.mark.nightly  # the same form page by keyboard: test_cluster_forms
def test_by_keyboard_with_the_effect_as_one_types(acme: Console, operator: Visitor, open_page) -> None:
    page = open_page(acme, PAGE)
    page.get_by_role("link", name="Set replica defaults").click()
    expect(page.get_by_label("Replication factor")).to_be_focused()
    page.keyboard.type("2")
    expect(page.locator("#verdict")).to_contain_text("will have 2 replicas and min.insync.replicas 1")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    expect(page.locator("#verdict")).to_contain_text("nothing could be produced")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Set defaults").click()
    expect(page.locator("#defaults")).to_contain_text("2")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, operator: Visitor, database: Database, open_page, folder: Path | None) -> None:
    topic(acme, database, "three", 3)
    page = open_page(acme, FORM)
    page.get_by_label("min.insync.replicas").fill("4")
    expect(page.locator("#verdict")).to_contain_text("nothing could be produced")
    taken(page, "cluster-defaults-refused", folder)
    page.get_by_label("Replication factor").fill("2")
    page.get_by_label("min.insync.replicas").fill("2")
    expect(page.locator("#verdict")).to_contain_text("will have 2 replicas")
    taken(page, "cluster-defaults", folder)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Set defaults").click()
    expect(page).to_have_title("c1 · Treeline")
    taken(page, "cluster-with-defaults", folder)
