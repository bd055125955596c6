"""The form for a group's offset reset says which records are read again, and which are skipped."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from backend.domain.base.errors import StateConflict
from backend.domain.tenants.stream_records import RecordApplied
from backend.web.offsets import offset_reset_form
from tests.browser.offsets.test_offsets_page import ITEMS, ORDERS, committed
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.support.console.consoles import Console
from tests.support.console.switching import COMPLETED, commands, start
from tests.support.console.visitors import Visitor, code, hidden, record, rows, said, visitor
from tests.support.database.postgres import Database

FORM = "/offsets/-reset"
WISH = {"stream": ORDERS, "group": "billing", "cluster": "c1", "partition": "0", "to": "earliest"}


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, int]]:
    """Return the offsets that the cluster would get: each log begins at 100 and ends at 36,000."""
    told: list[dict[int, int]] = []

    def wished(wish: Any) -> dict[int, int]:
        return {each: {"earliest": 100, "latest": 36_000}[wish.to] for each in wish.partitions}

    monkeypatch.setattr(offset_reset_form, "wished_offsets", wished)
    monkeypatch.setattr(offset_reset_form, "refuse_members", lambda wish: None)
    monkeypatch.setattr(offset_reset_form, "reset", lambda engine, wish, offsets: told.append(offsets))
    return told


@pytest.fixture
def owner_of_acme(acme: Console, database: Database, done: list[dict[int, int]]) -> Visitor:
    committed(database, ORDERS, "billing")
    place = dict(zip(("instance", "environment", "stream"), ORDERS.split("/")[1:], strict=True))
    record(database, RecordApplied(**place, cluster="c1", topic_id="T", replication_factor=1))
    return visitor(acme, "owner")


def test_what_comes_again_is_told_and_nothing_is_set_before(
    acme: Console, owner_of_acme: Visitor, done: list[dict[int, int]]
) -> None:
    form = owner_of_acme.get(f"{FORM}?stream={ORDERS}&group=billing&cluster=c1")
    preview = owner_of_acme.client.post(FORM, data={**hidden(form), **WISH, "step": "preview"})
    assert rows(preview, "data-field")["Partition 0"] == "Partition 0 35,000 100"
    assert "34,900 records will be read again" in said(preview) and done == []
    assert code(preview, "same-command") == (
        f"treeline offsets reset {ORDERS} billing --cluster c1 --to earliest --partition 0"
    )
    assert '"partition": 0' in code(preview, "same-curl")
    sent = {**hidden(preview), "step": "confirm"}
    wrong = owner_of_acme.client.post(FORM, data={**sent, "confirm": "bill"})
    assert wrong.status_code == 422 and "type billing" in said(wrong) and done == []
    for _ in range(2):
        answer = owner_of_acme.client.post(FORM, data={**sent, "confirm": "billing"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/offsets")
    assert done == [{0: 100}], "once, however often it is sent"
    newest = acme.rest.ok("GET", "/events?limit=1000")["items"][-1]
    assert (newest["name"], newest["metadata"]["actor"]) == ("GroupOffsetsReset", "owner")


def test_the_active_cluster_is_preselected_and_named(
    acme: Console, owner_of_acme: Visitor, database: Database
) -> None:
    commands(database, start("s0", source="c1", target="c2"), *COMPLETED[1:], switch="s0")
    for address in (f"{FORM}?stream={ORDERS}", f"{FORM}?group=billing", f"{FORM}?group=acme-retail-prod-billing"):
        page = owner_of_acme.get(address)
        assert '<option value="c2" selected>c2 (active)</option>' in page.text, address
        assert "Clients of acme/retail/prod are on c2." in said(page), address
    chosen = owner_of_acme.get(f"{FORM}?stream={ORDERS}&cluster=c1")
    assert '<option value="c1" selected>c1</option>' in chosen.text
    preview = owner_of_acme.client.post(FORM, data={**hidden(chosen), **WISH, "step": "preview"})
    assert "c1 is not the active cluster: the environment's clients are on c2." in said(preview)


def test_without_a_stream_no_cluster_is_preselected(owner_of_acme: Visitor) -> None:
    for address in (FORM, f"{FORM}?stream={ITEMS}", f"{FORM}?stream=acme&group=nobody"):
        page = owner_of_acme.get(address)
        options = page.text.partition("<select")[2].partition("</select>")[0]
        assert options.index("choose a cluster") < options.index("c1"), address
        assert "globex" not in options + said(page).replace(ITEMS, "")


def test_records_that_are_skipped_are_told(owner_of_acme: Visitor) -> None:
    given = {**WISH, "to": "latest", "partition": ""}
    preview = owner_of_acme.client.post(FORM, data={**hidden(owner_of_acme.get(FORM)), **given, "step": "preview"})
    assert "1,000 records will be skipped" in said(preview)
    assert "The current offset of 3 partitions is not known" in said(preview)


def test_a_group_with_members_is_refused(
    owner_of_acme: Visitor, monkeypatch: pytest.MonkeyPatch, acme: Console
) -> None:
    def has_members(*given: object) -> None:
        raise StateConflict("group billing has members on c1: stop its consumers there first")

    monkeypatch.setattr(offset_reset_form, "reset", has_members)
    before = acme.rest.ok("GET", "/events/head")
    preview = owner_of_acme.client.post(FORM, data={**hidden(owner_of_acme.get(FORM)), **WISH, "step": "preview"})
    sent = {**hidden(preview), "step": "confirm", "confirm": "billing"}
    answer = owner_of_acme.client.post(FORM, data=sent)
    assert answer.status_code == 409 and "has members on c1" in said(answer)
    assert acme.rest.ok("GET", "/events/head") == before


def test_the_preview_refuses_a_group_with_members_as_the_reset_would(
    owner_of_acme: Visitor, monkeypatch: pytest.MonkeyPatch, done: list[dict[int, int]]
) -> None:
    def has_members(*given: object) -> None:
        raise StateConflict("group billing has members on c1: stop its consumers there first")

    monkeypatch.setattr(offset_reset_form, "refuse_members", has_members)
    preview = owner_of_acme.client.post(FORM, data={**hidden(owner_of_acme.get(FORM)), **WISH, "step": "preview"})
    assert preview.status_code == 409 and "has members on c1" in said(preview) and done == []


def test_a_group_of_any_name_is_quoted_in_the_command(owner_of_acme: Visitor) -> None:
    given = {**WISH, "group": "Büro #1/ost's"}
    preview = owner_of_acme.client.post(FORM, data={**hidden(owner_of_acme.get(FORM)), **given, "step": "preview"})
    quoted = shlex.quote(given["group"])
    assert code(preview, "same-command") == (
        f"treeline offsets reset {ORDERS} {quoted} --cluster c1 --to earliest --partition 0"
    )


@pytest.mark.parametrize(
    ("changed", "status", "told"),
    [
        ({"stream": ITEMS}, 404, "there is no stream 'globex/shop/prod/items'"),
        ({"stream": "nobody/has/this/stream"}, 404, "there is no stream"),
        ({"group": "b\tc"}, 422, "cannot name a group: it has the character U+0009 at position 2"),
        ({"partition": "9"}, 422, "there is no partition 9"),
        ({"partition": "x"}, 422, "must be a whole number"),
        ({"cluster": "c9"}, 404, "there is no cluster 'c9'"),
    ],
)
def test_what_cannot_be_meant_is_told_and_other_tenants_are_not_seen(
    owner_of_acme: Visitor, changed: dict[str, str], status: int, told: str
) -> None:
    given = {**hidden(owner_of_acme.get(FORM)), **WISH, **changed}
    answer = owner_of_acme.client.post(FORM, data={**given, "step": "preview"})
    assert answer.status_code == status and told in said(answer)


def test_members_have_no_form(acme: Console, database: Database) -> None:
    who = visitor(acme, "member")
    assert who.get(FORM).status_code == 403 and "/-reset" not in who.get("/offsets").text


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    page = open_page(acme, f"{FORM}?stream={ORDERS}&group=billing&cluster=c1")
    taken(page, "offset-reset", folder)
