"""Commands that no other test runs, by a real control plane: discovery, targets, events by actor, dry runs."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.settings import settings
from tests.nightly import some_now
from tests.postgres.shell.test_rest_commands import FILE
from tests.support.api.rest import TOKEN
from tests.support.api.rest_client import RestClient
from tests.support.api.shell import Shell, shell_of
from tests.support.database.postgres import Database

PLACE = "acme/retail/prod"


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Iterator[Shell]:
    """Yield commands with a control plane that has what FILE declares, and two users."""
    with shell_of(database.url, tmp_path) as found:
        users = {"ada": {"role": "operator"}, "bob": {"tenants": {"acme": "owner"}}}
        applied = found("apply", "-f", found.file({**FILE, "users": users}))
        assert applied.exit_code == 0, applied.stderr
        yield found


def head(shell: Shell) -> int:
    position: int = json.loads(shell("events", "export-head").stdout)["position"]
    return position


def nothing_changed(shell: Shell, *words: str) -> None:
    """Check that a dry run succeeds, says that it was one, and appends nothing."""
    before = head(shell)
    ended = shell(*words, "--dry-run")
    assert ended.exit_code == 0, ended.stderr
    assert "nothing changed" in ended.stderr
    assert head(shell) == before


def as_user(shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    issued = shell("token", "issue", "ci", "--user", name)
    assert issued.exit_code == 0, issued.stderr
    monkeypatch.setenv("TREELINE_TOKEN", issued.stdout.strip())
    settings.cache_clear()


def test_a_distributor_is_retargeted_and_its_operation_is_read(shell: Shell) -> None:
    row = next(row for row in shell.json("get", "distributors") if len(row["allowed_targets"]) > 1)
    cluster, level = row["cluster"], str(row["level"])
    other = next(name for name in row["allowed_targets"] if name != row["target"])
    nothing_changed(shell, "distributor", "retarget", cluster, level, other)
    moved = shell.json("distributor", "retarget", cluster, level, other)
    assert (moved["target"], moved["previous"]) == (other, row["target"])
    operation = shell.json("get", "operation", moved["operation"])
    assert (operation["id"], operation["state"]) == (moved["operation"], "running")
    assert shell.json("describe", "operation", moved["operation"]) == operation
    assert shell("get", "operation", "no-such").exit_code == 1
    assert shell("get", "operations").exit_code == 2, "there is no list of them"
    refused = shell("distributor", "retarget", cluster, level, cluster)
    assert (refused.exit_code, other in refused.stderr) == (2, True), "the allowed ones are named"


def test_discovery_is_shown_and_a_client_that_is_gone_is_forgotten(shell: Shell) -> None:
    shown = shell.json("discovery", "show", PLACE)
    assert (shown["tenant"], shown["cluster"]) == ("acme", "c2"), "the primary of the tree"
    assert shell.json("discovery", "clients", PLACE)["items"] == [], "who asks so is no client"
    rest = RestClient(str(settings().url), TOKEN)
    asked = "tenant=acme&instance=retail&environment=prod&client_id=till-7&role=producer"
    rest.ok("GET", f"/discovery?{asked}")
    assert [row["client_id"] for row in shell.json("discovery", "clients", PLACE)["items"]] == ["till-7"]
    assert "till-7" in shell("discovery", "clients", PLACE).stdout
    nothing_changed(shell, "discovery", "forget", PLACE, "till-7")
    assert len(shell.json("discovery", "clients", PLACE)["items"]) == 1
    assert shell("discovery", "forget", PLACE, "till-7").exit_code == 0
    assert shell.json("discovery", "clients", PLACE)["items"] == []
    assert shell("discovery", "forget", PLACE, "till-7").exit_code == 1
    assert shell("discovery", "show", "acme/retail/test").exit_code == 1
    assert shell("discovery", "show", "acme/retail").exit_code == 2


def test_events_tell_who_did_what(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        as_user(shell, patch, "ada")
        for tenant in ("one", "two"):
            assert shell("apply", "-f", shell.file({"tenants": {tenant: {}}})).exit_code == 0
    settings.cache_clear()
    by_ada = shell.json("events", "--actor", "ada")
    assert [item["data"]["tenant"] for item in by_ada] == ["one", "two"]
    assert {item["metadata"]["actor"] for item in by_ada} == {"ada"}
    assert [item["data"]["tenant"] for item in shell.json("events", "--actor", "ada", "--last", "1")] == ["two"]
    created = shell.json("events", "--name", "TenantCreated", "--stream", "tenant-t")
    assert [item["stream"] for item in created] == ["tenant-two"]
    assert [item["position"] for item in shell.json("events", "--last", "3")] == [
        head(shell) - 2,
        head(shell) - 1,
        head(shell),
    ]
    everything = shell.json("events", "--limit", "1000")
    assert shell.json("events", "--last", "1000") == everything
    assert shell.json("events", "--actor", "nobody") == []
    assert shell("events", "--last", "3", "--after", "1").exit_code == 2
    assert "ada" in shell("events", "--actor", "ada").stdout


def test_a_tenants_user_sees_who_did_what_in_its_own_tenant_only(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("apply", "-f", shell.file({"tenants": {"globex": {}}})).exit_code == 0
    as_user(shell, monkeypatch, "bob")
    for words in (("--actor", "admin"), ("--last", "1000"), ("--name", "TenantCreated")):
        streams = {item["stream"] for item in shell.json("events", *words)}
        assert streams == {"tenant-acme"}, words


@some_now(
    "words",
    [
        ("user", "disable", "ada"),
        ("user", "password", "ada"),
        ("token", "issue", "ci", "--user", "ada"),
        ("token", "revoke", "old", "--user", "ada"),
        ("member", "set", "acme", "ada", "member"),
        ("member", "remove", "acme", "bob"),
        ("credentials", "issue", f"{PLACE}/billing"),
        ("credentials", "revoke", f"{PLACE}/billing"),
        ("losses", "acknowledge", "c2", "1"),
        ("schemas", "move-primary", "c1"),
        ("distributor", "pause", "c2", "1"),
        ("placement", "policy", "c1", "--set", "propose"),
        ("withdraw", f"{PLACE}/billing", f"{PLACE}/orders", "produce"),
    ],
    now=(0, 3, 10),
)
def test_a_dry_run_changes_nothing(shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREELINE_NEW_PASSWORD", "correct horse battery")
    prod = {"streams": {"orders": None}, "applications": {"billing": {"produces": ["orders"]}}}
    tenants = {"acme": {"instances": {"retail": {"environments": {"prod": prod}}}}}
    assert shell("apply", "-f", shell.file({"tenants": tenants})).exit_code == 0
    assert shell("credentials", "issue", f"{PLACE}/billing").exit_code == 0
    assert shell("token", "issue", "old", "--user", "ada").exit_code == 0
    secrets = [json.dumps(shell.json("token", "list", "--user", "ada"))]
    nothing_changed(shell, *words)
    assert json.dumps(shell.json("token", "list", "--user", "ada")) == secrets[0]


def test_every_form_says_the_same(shell: Shell) -> None:
    for words in (("get", "streams"), ("whoami",), ("events", "--last", "2"), ("context", "list"), ("zones",)):
        as_json = json.loads(shell(*words, "-o", "json").stdout)
        assert yaml.safe_load(shell(*words, "-o", "yaml").stdout) == as_json, words
        assert shell(*words).stdout.strip(), words
    link = shell.json("login-link")
    assert link["url"].startswith(str(settings().url))
    assert shell("login-link").stdout.startswith(str(settings().url)), "alone on its line, to be copied"


def test_placements_are_listed(shell: Shell, database: Database) -> None:
    assert shell.json("get", "placements") == {"items": [], "next_cursor": None}
    assert shell("describe", "placement", "no-such").exit_code == 1


@some_now(
    "status, headers, says",
    [
        (200, {}, "check the control plane's URL"),
        (301, {"Location": "https://elsewhere.example.org/"}, "leads to https://elsewhere.example.org/"),
    ],
    now=(0,),
)
def test_what_is_no_control_plane_is_told_as_that(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], says: str
) -> None:
    with answering(status, headers) as url:
        monkeypatch.setenv("TREELINE_URL", url)
        settings.cache_clear()
        ended = shell("get", "tenants")
    assert (ended.exit_code, ended.stdout, says in ended.stderr) == (2, "", True), ended.stderr


@contextmanager
def answering(status: int, headers: dict[str, str]) -> Iterator[str]:
    """Run a server that is not Treeline's."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
