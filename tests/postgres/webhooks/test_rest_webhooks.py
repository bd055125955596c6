"""Webhooks over REST: creation, reads, changes, deletion, permissions, and the secret.

The secret is shown once, and stored nowhere in plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from backend.api.app import create_app
from backend.commands.shell.exit_codes import Code
from backend.queries.webhooks.webhook_secrets import secret_of, webhook_secrets
from tests.postgres.access.test_rest_users import everything_stored
from tests.support.api.callers import new_user
from tests.support.api.rest import SECRETS_KEY, Rest, problem, rest_settings
from tests.support.api.shell import Shell, shell_of
from tests.support.database.postgres import Database

OPS = {"name": "ops", "url": "https://receiver.example/treeline", "events": ["switch", "gap"]}
SHOWN = {**OPS, "events": ["gap", "switch"], "enabled": True}
HOOKS, HOOK = "/webhooks", "/webhooks/ops"


def plain(document: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in document.items() if name not in ("secret", "secret_since")}


def test_a_webhook_is_made_read_changed_and_deleted_under_its_etag(rest: Rest) -> None:
    made = rest("POST", HOOKS, OPS)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/api/v1/webhooks/ops"
    assert plain(made.json()) == SHOWN
    read = rest("GET", HOOK)
    assert (plain(read.json()), read.headers["etag"]) == (SHOWN, made.headers["etag"])
    assert "secret" not in read.json()
    changed = rest("PATCH", HOOK, {"events": ["quarantine"], "enabled": False}, If_Match=read.headers["etag"])
    assert plain(changed.json()) == {**SHOWN, "events": ["quarantine"], "enabled": False}
    problem(rest("PATCH", HOOK, {"enabled": True}, If_Match=read.headers["etag"]), 412, "stale-version")
    problem(rest("DELETE", HOOK, If_Match=read.headers["etag"]), 412, "stale-version")
    assert [plain(each) for each in rest("GET", f"{HOOKS}?at=1").json()["items"]] == [SHOWN]
    assert plain(rest("GET", f"{HOOK}?at=1").json()) == SHOWN
    problem(rest("POST", HOOKS, OPS), 409, "already-exists")
    assert rest("DELETE", HOOK, If_Match=changed.headers["etag"]).status_code == 204
    assert rest("GET", HOOKS).json() == {"items": [], "next_cursor": None}
    for method, path in (("GET", HOOK), ("DELETE", HOOK), ("POST", f"{HOOK}/test"), ("POST", f"{HOOK}/secret")):
        problem(rest(method, path), 404, "not-found")
    problem(rest("GET", f"{HOOK}/deliveries"), 404, "not-found")
    problem(rest("POST", f"{HOOK}/deliveries/1/retry"), 404, "not-found")
    names = [each["name"] for each in rest("GET", "/events").json()["items"]]
    assert names == ["WebhookCreated", "WebhookChanged", "WebhookDeleted"]


def test_wrong_content_is_told_where_it_is(rest: Rest) -> None:
    body = {"name": "ops", "url": "http://10.0.0.1/", "events": ["all"]}
    found = problem(rest("POST", HOOKS, body), 422, "value-invalid")
    assert [each["pointer"] for each in found["errors"]] == ["/events", "/url"]
    problem(rest("POST", HOOKS, {**OPS, "name": "Ops"}), 422, "name-invalid")
    assert rest("POST", HOOKS, {**OPS, "secret": "mine"}).status_code == 422
    assert rest.head() == 0


def test_a_dry_run_makes_nothing_and_shows_no_secret(rest: Rest, database: Database) -> None:
    assert rest("POST", f"{HOOKS}?dry_run=true", OPS).json()["secret"] is None
    assert rest.head() == 0
    rest("POST", HOOKS, OPS)
    with database.engine.connect() as connection:
        before = connection.execute(sa.select(webhook_secrets)).all()
        assert rest("POST", f"{HOOK}/secret?dry_run=true").json()["secret"] is None
        assert rest("PATCH", f"{HOOK}?dry_run=true", {"enabled": False}).json()["enabled"] is False
        assert rest("POST", f"{HOOK}/test?dry_run=true").status_code == 202
        assert rest("DELETE", f"{HOOK}?dry_run=true").status_code == 204
        assert connection.execute(sa.select(webhook_secrets)).all() == before
    assert rest.head() == 1


def test_a_secret_is_shown_once_and_stands_nowhere(rest: Rest, database: Database) -> None:
    first, again = (rest("POST", HOOKS, OPS, Idempotency_Key="k") for _ in range(2))
    assert again.json() == first.json() | {"secret": None}
    problem(rest("POST", HOOKS, {**OPS, "events": ["gap"]}, Idempotency_Key="k"), 422, "idempotency-key-reused")
    rotated, repeat = (rest("POST", f"{HOOK}/secret", Idempotency_Key="r") for _ in range(2))
    assert repeat.json()["secret"] is None
    secrets = [answer.json()["secret"] for answer in (first, rotated)]
    assert all(each.startswith("whsec_") and len(each) > 40 for each in secrets) and secrets[0] != secrets[1]
    stored = everything_stored(database)
    assert OPS["url"] in stored
    assert not any(each in stored for each in secrets)
    with database.engine.begin() as connection:
        assert secret_of(connection, "ops", [SECRETS_KEY]) == secrets[1]
        assert secret_of(connection, "ops", ["another key of the tests, as long as it"]) is None
        # A row that is moved to another webhook opens nothing.
        connection.execute(sa.update(webhook_secrets).values(webhook="dev"))
        assert secret_of(connection, "dev", [SECRETS_KEY]) is None
        connection.execute(sa.update(webhook_secrets).values(webhook="ops"))
    rest("DELETE", HOOK)
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(webhook_secrets)).all() == []


def test_only_admins_change_them_and_who_reads_the_estate_sees_them(rest: Rest) -> None:
    rest("POST", HOOKS, OPS)
    changes = (
        ("POST", HOOKS, OPS),
        ("PATCH", HOOK, {"enabled": False}),
        ("DELETE", HOOK, None),
        *(("POST", f"{HOOK}/{each}", None) for each in ("secret", "test", "deliveries/1/retry")),
    )
    operator, nobody = new_user(rest, "otto", "operator"), new_user(rest, "ada")
    for method, path, body in changes:
        assert "manage-webhooks" in problem(operator(method, path, body), 403, "not-allowed")["detail"]
    for path in (HOOKS, HOOK, f"{HOOK}/deliveries"):
        assert operator("GET", path).status_code == 200
        problem(nobody("GET", path), 403, "not-allowed")
    admin = new_user(rest, "anna", "admin")
    assert admin("PATCH", HOOK, {"enabled": False}).status_code == 200


@pytest.fixture
def without_key(database: Database) -> Iterator[Rest]:
    app = create_app(rest_settings(database.url, secrets_key=None))
    yield Rest(TestClient(app, raise_server_exceptions=False))
    app.state.services.engine.dispose()


def test_without_a_key_no_secret_can_be_kept(without_key: Rest) -> None:
    found = problem(without_key("POST", HOOKS, OPS), 409, "state-conflict")
    assert "secrets of webhooks cannot be stored: set TREELINE_SECRETS_KEY" in found["detail"]
    assert without_key.head() == 0


def test_a_network_that_a_setting_names_is_allowed(database: Database) -> None:
    app = create_app(rest_settings(database.url, webhook_allowed_networks="10.0.0.0/8, 127.0.0.0/8"))
    rest = Rest(TestClient(app))
    assert rest("POST", HOOKS, {**OPS, "url": "http://127.0.0.1:1/"}).status_code == 201
    app.state.services.engine.dispose()
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8"):
        rest_settings(database.url, webhook_allowed_networks="10.0.0.1/8")


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Iterator[Shell]:
    with shell_of(database.url, tmp_path) as running:
        yield running


def test_the_shell_applies_compares_shows_rotates_tests_and_deletes(rest: Rest, shell: Shell) -> None:
    file = shell.file({"webhooks": {"ops": {"url": OPS["url"], "events": ["switch", "gap"]}}})
    assert shell("apply", "-f", file).exit_code == 0
    assert shell("diff", "-f", file).exit_code == 0, "a list is compared as a set"
    assert "receiver.example" in shell("get", "webhooks").stdout
    assert "secret_since" in shell("describe", "webhook", "ops").stdout
    exported = shell("export").stdout
    assert shell("diff", "-f", shell.file(exported)).exit_code == 0 and "receiver.example" in exported
    shell.file({"webhooks": {"ops": {"events": ["gap"], "enabled": False}}})
    assert shell("diff", "-f", file).exit_code == 1
    assert shell("apply", "-f", file).exit_code == 0
    assert rest("GET", HOOK).json()["events"] == ["gap"]
    assert shell("webhook", "test", "ops").exit_code == Code.CONFLICT, "it is disabled"
    rest("PATCH", HOOK, {"enabled": True})
    rotated = shell("webhook", "rotate", "ops")
    assert rotated.stdout.startswith("whsec_") and "not shown again" in rotated.stderr
    assert shell("webhook", "test", "ops", "--no-wait").exit_code == 0
    assert shell("webhook", "deliveries", "ops").exit_code == 0
    assert shell("delete", "webhook", "ops").exit_code == 0
    assert rest("GET", HOOKS).json()["items"] == []
