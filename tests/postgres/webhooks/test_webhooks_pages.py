"""Pages and forms of webhooks."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from backend.deciders import EDGE
from backend.eventlog.recorded import StoredEvent
from backend.queries.base import events
from backend.queries.webhooks import webhook_deliveries as queries
from backend.web.webhooks import webhooks_page
from tests.postgres.webhooks.test_webhook_deliveries import ASIDE, LOSS
from tests.support.api.receiver import receiving
from tests.support.api.worker_records import record
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, said, values, visitor
from tests.support.database.postgres import Database

OPS = {"name": "ops", "url": "https://receiver.example/treeline"}
NEW, PAGE = "/webhooks/-new", "/webhooks/ops"
ALL = {"switch": "yes", "gap": "yes", "quarantine": "yes"}


def told_of(console: Console, database: Database) -> list[int]:
    """Create webhook ops with a delivered, a pending and a failed delivery; return their positions."""
    console.rest.ok("POST", "/webhooks", {**OPS, "events": list(ALL)})
    positions = []
    for command in (LOSS, ASIDE, type(LOSS)(**{**vars(LOSS), "first_offset": 1})):
        record(database.engine, command, EDGE, "edge-c1-1")
        positions.append(console.rest.ok("GET", "/events/head")["position"])
    with database.engine.begin() as connection:
        queries.queue(connection)
        first, second, third = (queries.begin(connection, "ops", 600) for _ in positions)
        assert first and second and third
        queries.delivered(connection, first, 204)
        queries.failed_once(connection, second, None, "it cannot be reached: Connection refused", 600)
        queries.failed_once(connection, third, 500, "it answered 500", None)
    return positions


@pytest.fixture
def admin(acme: Console) -> Visitor:
    return Visitor(acme, "anna", "admin")


def test_a_webhook_is_made_by_a_form_and_its_secret_is_shown_once(acme: Console, admin: Visitor) -> None:
    assert "No webhooks yet." in said(admin.get("/webhooks"))
    form = admin.get(NEW)
    wish = {**OPS, "switch": "yes", "quarantine": "yes", "enabled": "yes"}
    preview = admin.preview(NEW, **wish)
    assert "Events from then on are sent to https://receiver.example/treeline." in said(preview)
    assert "webhooks:\n  ops:" in code(preview, "same-yaml")
    assert acme.rest.ok("GET", "/webhooks")["items"] == []
    sent = {**hidden(preview), "step": "confirm"}
    done = admin.client.post(NEW, data=sent)
    [secret] = re.findall("whsec_[A-Za-z0-9+/=]+", done.text)
    assert "not shown again" in said(done) and "No deliveries yet" in said(done)
    again = admin.client.post(NEW, data=sent, follow_redirects=False)
    assert (again.status_code, again.headers["location"]) == (303, PAGE), "sent twice, it is done once"
    assert secret not in admin.get(PAGE).text
    [made] = acme.rest.ok("GET", "/webhooks")["items"]
    assert made["events"] == ["quarantine", "switch"]
    assert "checked" in form.text


def test_what_is_refused_is_told_at_its_field(admin: Visitor) -> None:
    answer = admin.send(NEW, step="preview", name="Ops", url="http://10.0.0.1/", enabled="yes")
    assert answer.status_code == 422 and "cannot name a webhook" in said(answer)
    answer = admin.send(NEW, step="preview", name="ops", url="http://10.0.0.1/", enabled="yes")
    assert "is not a public address" in said(answer) and "choose at least one" in said(answer)
    assert values(answer)["url"] == "http://10.0.0.1/", "what was typed is still there"


def test_what_was_sent_is_listed_and_sent_again(acme: Console, admin: Visitor, database: Database) -> None:
    taken, waits, failed = told_of(acme, database)
    listed = said(admin.get("/webhooks"))
    assert "ops" in listed and "switch, gap, quarantine" in listed
    page = admin.get(PAGE)
    for text in (
        "HTTP 204, 1 attempt",
        "retrying, 1 attempt failed: it cannot be reached: Connection refused",
        "given up after 1 attempt: it answered 500",
    ):
        assert text in said(page)
    assert said(admin.get(f"{PAGE}/-live")) in said(page)
    assert re.findall('name="position" value="([0-9]+)"', page.text) == [str(failed), str(waits)]
    preview = admin.preview(f"{PAGE}/-retry", position=str(failed))
    assert f"Event {failed}, of kind" in said(preview) and "within seconds" in said(preview)
    assert code(preview, "same-command") == f"treeline webhook retry ops {failed}"
    assert "given up after 1 attempt" in said(admin.get(PAGE))
    assert admin.confirm(f"{PAGE}/-retry", position=str(failed)).status_code == 303
    states = {row["position"]: row["state"] for row in acme.rest.ok("GET", f"{PAGE}/deliveries")["items"]}
    assert states == {taken: "delivered", waits: "pending", failed: "pending"}
    assert admin.send(f"{PAGE}/-retry", position="999").status_code == 404
    assert admin.send(f"{PAGE}/-retry", position="²").status_code == 404


def live_part(page: str) -> str:
    """Return the address of a page's live part."""
    [address] = re.findall(rf'hx-get="({PAGE}/-live[^"]*)"', page)
    return str(address).replace("&amp;", "&")


def test_sentences_are_read_for_the_shown_deliveries_and_only_after_a_change(
    acme: Console, database: Database, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = told_of(acme, database)
    told = [*range(130, 100, -1), *reversed(given)]
    with database.engine.begin() as connection:
        columns = ", ".join(each.name for each in queries.webhook_deliveries.c if each.name != "position")
        copied = f"INSERT INTO webhook_deliveries (position, {columns}) SELECT number, {columns} FROM"
        more = "webhook_deliveries, generate_series(101, 130) number WHERE position = :one"
        connection.execute(sa.text(f"{copied} {more}"), {"one": given[0]})
    read: list[list[int]] = []

    def events_at(connection: sa.Connection, positions: list[int]) -> list[StoredEvent]:
        read.append(positions)
        return events.events_at(connection, positions)

    monkeypatch.setattr(webhooks_page, "events_at", events_at)
    page = admin.get(f"{PAGE}?rows=25&page=2")
    assert read.pop() == told[25:]
    found = re.findall('data-position="([0-9]+)"', admin.get(f"{PAGE}?filter=gap+on+c1").text)
    assert found == [str(given[2]), str(given[0])] and read.pop() == told
    live = live_part(page.text)
    assert "page=2" in live and admin.get(live).status_code == 204 and read == []
    admin.confirm(f"{PAGE}/-retry", position=str(given[-1]))
    again = admin.get(live)
    assert again.status_code == 200 and read.pop() == told[25:]
    assert "seen=" not in again.text.replace(re.findall(r'hx-get="[^"]*"', again.text)[0], "")
    assert admin.get(f"{PAGE}?at={given[0]}").status_code == 200 and read.pop() == []


def test_forms_change_test_rotate_and_delete(acme: Console, admin: Visitor) -> None:
    with receiving() as receiver:
        acme.rest.ok("POST", "/webhooks", {**OPS, "events": ["gap"]})
        form = admin.get(f"{PAGE}/-change")
        wish = {**hidden(form), "url": OPS["url"], "gap": "yes", "switch": "yes", "enabled": "no"}
        preview = admin.preview(f"{PAGE}/-change", **{k: v for k, v in wish.items() if k != "key"})
        assert "Events while it is disabled are not sent" in said(preview)
        admin.client.post(f"{PAGE}/-change", data={**hidden(preview), "step": "confirm"})
        now = acme.rest.ok("GET", PAGE)
        assert (now["events"], now["enabled"]) == (["gap", "switch"], False)
        late = admin.client.post(f"{PAGE}/-change", data={**wish, "step": "preview"})
        assert late.status_code == 412 and "somebody changed it since" in said(late)
        shown = admin.get(PAGE).text
        assert "/-test" not in shown, "what is disabled is not tested"
        live = live_part(shown)
        acme.rest.ok("PATCH", PAGE, {"enabled": True})
        assert receiver.got == []
    for way, command in (("test", "webhook test ops"), ("secret", "webhook rotate ops"), ("delete", "delete")):
        opened = hidden(admin.get(f"{PAGE}/-{way}"))
        preview = admin.client.post(f"{PAGE}/-{way}", data={**opened, "step": "preview"})
        assert command in code(preview, "same-command")
        done = admin.client.post(f"{PAGE}/-{way}", data={**hidden(preview), "step": "confirm"})
        assert done.status_code in (200, 303)
        assert ("whsec_" in done.text) is (way == "secret")
    assert acme.rest.ok("GET", "/webhooks")["items"] == []
    assert admin.get(live).status_code == 404, "not that nothing has changed"
    names = [each["name"] for each in acme.rest.ok("GET", "/events?limit=1000")["items"]]
    assert names[-3:] == ["WebhookTested", "WebhookSecretRotated", "WebhookDeleted"]


@pytest.mark.parametrize("kind", ["operator", "viewer"])
def test_others_see_webhooks_and_change_none(acme: Console, kind: str) -> None:
    acme.rest.ok("POST", "/webhooks", {**OPS, "events": ["gap"]})
    other = visitor(acme, kind)
    assert "receiver.example" in said(other.get("/webhooks")) and "manage-webhooks" in said(other.get(PAGE))
    for way in ("change", "secret", "test", "delete"):
        assert other.get(f"{PAGE}/-{way}").status_code == 403
        assert other.send(f"{PAGE}/-{way}", step="preview").status_code == 403
    assert other.get(NEW).status_code == 403
    assert other.send(f"{PAGE}/-retry", position="1").status_code == 403


def test_who_belongs_to_a_tenant_only_sees_none(acme: Console) -> None:
    acme.rest.ok("POST", "/webhooks", {**OPS, "events": ["gap"]})
    member = visitor(acme, "member")
    for path in ("/webhooks", PAGE, f"{PAGE}/-live", "/webhooks/nobody"):
        assert member.get(path).status_code == 403
