"""The page of losses and dead letters, with the forms that acknowledge and replay them."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.changes import edge_losses as changes
from backend.cluster_requests.replay import Replay
from backend.deciders import EDGE
from backend.domain.base.errors import StateConflict
from backend.domain.distribution.edge_losses import RecordDeadLetter, RecordLoss, RecordReplacement
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, record, rows, said, visitor
from tests.support.database.postgres import Database

PAGE, ORDERS = "/losses", "acme/retail/prod/orders"
ACKNOWLEDGE = "/losses/-acknowledge?cluster=c1&level=2"
ASIDE = RecordDeadLetter(
    cluster="c1",
    level=2,
    target="c2",
    stream=ORDERS,
    partition=0,
    offset=7,
    origin=(1, 1, 7),
    reason="its timestamp is too far ahead",
)
REPLAY = f"/losses/-replay?id={ASIDE.id}"


def lose(database: Database, first: int, last: int) -> None:
    command = RecordLoss(
        cluster="c1",
        level=2,
        target="c2",
        stream=ORDERS,
        partition=0,
        first_offset=first,
        last_offset=last,
        reason=f"offsets {first} to {last} were gone before they were read",
        incarnation=1,
    )
    record(database, command, EDGE, "edge-c1-2")


def make_anew(database: Database, incarnation: int, at_least: int) -> None:
    command = RecordReplacement(
        cluster="c1",
        level=2,
        target="c2",
        stream=ORDERS,
        incarnation=incarnation,
        partitions=((0, 50, 0), (1, 50, at_least)),
    )
    record(database, command, EDGE, "edge-c1-2")


def add_dead_letter(database: Database) -> None:
    record(database, ASIDE, EDGE, "edge-c1-2")


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


def test_nothing_lost_is_said(operator: Visitor) -> None:
    page = said(operator.get(PAGE))
    assert "no distributor is degraded" in page and "No dead letters." in page and "No losses" in page


def test_losses_are_taken_note_of_by_the_distributors_name(
    acme: Console, operator: Visitor, database: Database
) -> None:
    lose(database, 10, 19)
    assert "c1:2 lost 1 range: 10 records. Acknowledge" in said(operator.get(PAGE))
    address = ACKNOWLEDGE.partition("?")[0]
    preview = operator.client.post(address, data={**hidden(operator.get(ACKNOWLEDGE)), "step": "preview"})
    assert "acme/retail/prod/orders/0, offsets 10 to 19: gone before they were read" in said(preview)
    assert code(preview, "same-command") == "treeline losses acknowledge c1 2"
    assert '"level": 2' in code(preview, "same-curl")
    sent = {**hidden(preview), "step": "confirm"}
    wrong = operator.client.post(address, data={**sent, "confirm": "c1"})
    assert wrong.status_code == 422 and "type c1:2" in said(wrong)
    # Losses since the preview are not acknowledged unseen.
    make_anew(database, 2, 0)
    late = operator.client.post(address, data={**sent, "confirm": "c1:2"})
    assert late.status_code == 412 and "the losses of c1:2 have changed since you opened this form" in said(late)
    preview = operator.client.post(address, data={**hidden(late), "step": "preview"})
    assert "at least 10 offsets" in said(preview)
    sent = {**hidden(preview), "step": "confirm", "confirm": "c1:2"}
    for _ in range(2):
        assert operator.client.post(address, data=sent).headers["location"] == PAGE
    assert all(each["acknowledged"] for each in acme.rest.ok("GET", "/losses")["items"])
    assert "no distributor is degraded" in said(operator.get(PAGE)) and "yes" in said(operator.get(PAGE))


def test_of_a_topic_made_anew_is_said_what_is_known_and_what_is_only_possible(
    acme: Console, operator: Visitor, database: Database
) -> None:
    make_anew(database, 2, 0)
    page = said(operator.get(PAGE))
    assert "c1:2 may have lost records of 2 partitions; none is known to be missing." in page
    assert "nothing of the former one is known to be missing" in page
    assert "from offset 50 on, if any, are gone" in page
    make_anew(database, 3, 7)
    page = said(operator.get(PAGE))
    assert "c1:2 lost 4 ranges: at least 7 offsets." in page
    assert "7 offsets of the former one, from 50 on, were seen but not read" in page
    found = acme.rest.ok("GET", "/losses")["items"]
    assert [(each["partition"], each["last_offset"], each["at_least"]) for each in found] == [
        (0, None, 0),
        (1, None, 0),
        (0, None, 0),
        (1, None, 7),
    ]


def test_a_record_is_replayed_and_where_it_is_still_missing_is_told(
    acme: Console, operator: Visitor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_dead_letter(database)
    page = operator.get(PAGE)
    assert "1 to replay" in said(page) and "Replay" in rows(page, "data-aside")[ASIDE.id]
    monkeypatch.setattr(changes, "facts_of", lambda *given: None)
    monkeypatch.setattr(
        changes, "replay_dead_letter", lambda *given: Replay(("c2",), {"c3": "it arrives along its route"})
    )
    preview = operator.client.post("/losses/-replay", data={**hidden(operator.get(REPLAY)), "step": "preview"})
    assert "written on c2 and on every other cluster" in said(preview)
    assert rows(preview, "data-field")["Reason"] == "Reason its timestamp is too far ahead"
    assert code(preview, "same-command") == f"treeline set-aside replay {ASIDE.id}"
    done = operator.client.post("/losses/-replay", data={**hidden(preview), "step": "confirm"})
    assert done.status_code == 200 and "Written on c2" in said(done)
    assert "c3: it arrives along its route" in said(done)
    (row,) = acme.rest.ok("GET", "/set-aside")["items"]
    assert row["replayed"] and rows(operator.get(PAGE), "data-aside")[ASIDE.id].endswith("yes")


def test_what_is_still_refused_stays(
    acme: Console, operator: Visitor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_dead_letter(database)

    def refused(*given: object) -> Replay:
        raise StateConflict("c2 still refuses it")

    monkeypatch.setattr(changes, "facts_of", lambda *given: None)
    monkeypatch.setattr(changes, "replay_dead_letter", refused)
    preview = operator.client.post("/losses/-replay", data={**hidden(operator.get(REPLAY)), "step": "preview"})
    answer = operator.client.post("/losses/-replay", data={**hidden(preview), "step": "confirm"})
    assert answer.status_code == 409 and "c2 still refuses it" in said(answer)
    assert not acme.rest.ok("GET", "/set-aside")["items"][0]["replayed"]


def test_a_stream_that_is_nowhere_cannot_be_replayed(operator: Visitor, database: Database) -> None:
    add_dead_letter(database)
    answer = operator.client.post("/losses/-replay", data={**hidden(operator.get(REPLAY)), "step": "preview"})
    assert answer.status_code == 404 and "has no topic on c1" in said(answer)


@pytest.mark.parametrize("path", ["/losses/-replay?id=none", "/losses/-acknowledge?cluster=c1&level=x"])
def test_what_there_is_not_is_not_found(operator: Visitor, path: str) -> None:
    assert operator.get(path).status_code == 404


@pytest.mark.parametrize(("kind", "status"), [("viewer", 200), ("owner", 403)])
def test_who_may_only_look_has_no_forms(acme: Console, database: Database, kind: str, status: int) -> None:
    lose(database, 1, 2)
    add_dead_letter(database)
    who = visitor(acme, kind)
    page = who.get(PAGE)
    assert page.status_code == status and "/-replay" not in page.text and "/-acknowledge" not in page.text
    assert {who.get(path).status_code for path in (ACKNOWLEDGE, REPLAY)} == {403}


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    lose(database, 10, 19)
    add_dead_letter(database)
    page = open_page(acme, PAGE)
    taken(page, "losses", folder)
    page.get_by_role("link", name="Acknowledge").click()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Acknowledge losses").wait_for()
    taken(page, "losses-acknowledge", folder)
    page.goto(f"{acme.url}{REPLAY}")
    taken(page, "losses-replay", folder)
