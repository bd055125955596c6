"""Forms that rebuild projections, and that remove unreachable nodes of the zone router."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, rows, said, visitor
from tests.support.console.zoning import reports
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import pass_time

REBUILD, FORGET = "/timeline/-rebuild", "/zones/-forget"


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


def nodes(acme: Console) -> list[str]:
    return [each["node"] for each in acme.rest.ok("GET", "/route-epochs")["nodes"]]


def test_a_read_model_is_folded_again(acme: Console, operator: Visitor, database: Database) -> None:
    form = operator.get(REBUILD)
    assert '<option value="clusters"' in form.text
    preview = operator.client.post(REBUILD, data={**hidden(form), "name": "clusters", "step": "preview"})
    assert "1 projection will be rebuilt from" in said(preview)
    assert code(preview, "same-command") == "treeline projections rebuild clusters"
    assert code(preview, "same-curl").startswith(
        'curl -X POST "$TREELINE_URL/api/v1/projections/rebuild?name=clusters"'
    )
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE clusters SET zone = 'broken'"))
    assert acme.rest.ok("GET", "/clusters/c1")["zone"] == "broken"
    done = operator.client.post(REBUILD, data={**hidden(preview), "step": "confirm"})
    assert (done.status_code, done.headers["location"]) == (303, "/timeline")
    assert acme.rest.ok("GET", "/clusters/c1")["zone"] is None


def test_what_is_no_read_model_is_told(operator: Visitor) -> None:
    answer = operator.client.post(REBUILD, data={**hidden(operator.get(REBUILD)), "name": "no", "step": "preview"})
    assert answer.status_code == 422 and "there is no projection 'no'" in said(answer)


def test_a_dead_node_is_forgotten_by_its_name(acme: Console, operator: Visitor, database: Database) -> None:
    reports(acme, epochs=(41, 12, None))
    name = nodes(acme)[0]
    address = f"{FORGET}?node={name}"
    lives = operator.client.post(FORGET, data={**hidden(operator.get(address)), "step": "preview"})
    assert lives.status_code == 409 and f"{name} still reports" in said(lives)
    pass_time(database, 0, since=600)
    pass_time(database, 45, name)
    assert f"/zones/-forget?node={name}" in operator.get("/zones").text
    preview = operator.client.post(FORGET, data={**hidden(operator.get(address)), "step": "preview"})
    assert f"{name} will be removed" in said(preview)
    assert rows(preview, "data-field")["Open streams"] == "Open streams 4 open streams"
    assert code(preview, "same-command") == f"treeline zones forget {name}"
    sent = {**hidden(preview), "step": "confirm"}
    assert operator.client.post(FORGET, data={**sent, "confirm": "x"}).status_code == 422
    done = operator.client.post(FORGET, data={**sent, "confirm": name})
    assert (done.status_code, done.headers["location"]) == (303, "/zones") and name not in nodes(acme)


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_has_no_forms(acme: Console, kind: str) -> None:
    who = visitor(acme, kind)
    assert {who.get(path).status_code for path in (REBUILD, FORGET)} == {403}


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    page = open_page(acme, REBUILD)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Rebuild projections").wait_for()
    taken(page, "rebuild", folder)
