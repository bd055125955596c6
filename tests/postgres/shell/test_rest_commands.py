"""`treeline get`, `describe`, `apply`, `diff`, `delete` and user commands against a running control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from backend.cli import app
from backend.commands.shell import progress
from backend.domain.tenants.stream_records import RecordApplied
from backend.settings import settings
from tests.support.api.rest import NOBODY_LISTENS, TOKEN, TREE
from tests.support.api.shell import Shell, shell_of
from tests.support.console.visitors import record
from tests.support.database.postgres import Database

FILE: dict[str, Any] = {
    "clusters": {
        name: {"bootstrap_servers": NOBODY_LISTENS, "accept_offline": True} for name in ("c1", "c2", "c3")
    },
    "primary": "c2",
    "tree": TREE,
    "tenants": {
        "acme": {
            "instances": {
                "retail": {
                    "environments": {
                        "prod": {"margin_seconds": 30, "streams": {"orders": {"partitions": 4}, "payments": None}}
                    }
                }
            }
        }
    },
}


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Iterator[Shell]:
    """Yield commands with an empty control plane."""
    with shell_of(database.url, tmp_path) as found:
        yield found


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configure a control plane that does not respond."""
    monkeypatch.setenv("TREELINE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TREELINE_TOKEN", TOKEN)
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_a_file_is_applied_once_and_then_changes_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    file = shell.file(FILE)
    assert shell("diff", "-f", file).exit_code == 1
    dry = shell("apply", "-f", file, "--dry-run", "--json")
    assert dry.exit_code == 0, dry.stderr
    assert {row["action"] for row in json.loads(dry.stdout)} == {"create"}
    assert shell.json("get", "clusters")["items"] == []
    applied = shell.json("apply", "-f", file)
    assert [row["place"] for row in applied] == [
        "c1",
        "c2",
        "c3",
        "main",
        "acme",
        "acme/retail",
        "acme/retail/prod",
        "acme/retail/prod/orders",
        "acme/retail/prod/payments",
    ]
    assert {row["action"] for row in applied} == {"create"}
    assert {row["action"] for row in shell.json("apply", "-f", file)} == {"keep"}

    # No cluster responds here: commands that wait for clusters say what they lack.
    waited = shell("apply", "-f", file, "--wait", "0")
    assert waited.exit_code == 1
    assert "not on all clusters after 0 s" in waited.stderr
    assert "stream acme/retail/prod/orders on c1: pending" in waited.stderr
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0)
    told = shell("apply", "-f", file)
    assert "declared: 9 of 9" in told.stderr
    assert shell.json("diff", "-f", file) == []
    assert shell.json("get", "tree")["primary_cluster"] == "c2"
    _change_one_thing(shell)
    _look_at_everything(shell)
    _delete(shell)


def test_what_removes_records_is_applied_where_its_stream_is_confirmed(database: Database, shell: Shell) -> None:
    assert shell("apply", "-f", shell.file(FILE)).exit_code == 0
    place = {"instance": "retail", "environment": "prod", "stream": "orders"}
    record(database, RecordApplied(**place, cluster="c1", topic_id="T", replication_factor=1))
    streams = {"orders": {"retention_ms": 1}, "payments": {"partitions": 2}}
    tenants = {"acme": {"instances": {"retail": {"environments": {"prod": {"streams": streams}}}}}}
    file = shell.file({"tenants": tenants})
    for words in ((), ("--dry-run",), ("--confirm", "acme/retail/prod/payments")):
        refused = shell("apply", "-f", file, *words)
        assert refused.exit_code == 3, refused.stderr
        assert "records on c1" in refused.stderr
    confirmed = shell("apply", "-f", file, "--confirm", "acme/retail/prod/orders")
    assert confirmed.exit_code == 0, confirmed.stderr
    assert shell.json("get", "stream", "acme/retail/prod/orders")["retention_ms"] == 1


def _change_one_thing(shell: Shell) -> None:
    orders = {"orders": {"partitions": 6}}
    tenants = {"acme": {"instances": {"retail": {"environments": {"prod": {"streams": orders}}}}}}
    file = shell.file({"tenants": tenants})
    found = shell("diff", "-f", file, "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout) == [
        {
            "kind": "stream",
            "place": "acme/retail/prod/orders",
            "action": "change",
            "field": "partitions",
            "present": 4,
            "wanted": 6,
        }
    ]
    assert [row["action"] for row in shell.json("apply", "-f", file)] == ["keep", "keep", "keep", "change"]
    assert shell.json("get", "stream", "acme/retail/prod/orders")["partitions"] == 6
    refused = shell("apply", "-f", shell.file(yaml.safe_dump({"tenants": tenants}).replace("6", "2")))
    assert refused.exit_code == 2
    assert "partitions" in refused.stderr


def test_a_factor_is_changed_by_a_file_and_described_with_what_there_is(database: Database, shell: Shell) -> None:
    assert shell("apply", "-f", shell.file(FILE)).exit_code == 0
    place = {"instance": "retail", "environment": "prod", "stream": "orders"}
    record(database, RecordApplied(**place, cluster="c1", topic_id="T", replication_factor=1))
    streams = {"orders": {"replication_factor": 3, "min_insync_replicas": 2}}
    tenants = {"acme": {"instances": {"retail": {"environments": {"prod": {"streams": streams}}}}}}
    file = shell.file({"tenants": tenants})
    found = json.loads(shell("diff", "-f", file, "--json").stdout)
    assert [(row["field"], row["present"], row["wanted"]) for row in found] == [
        ("replication_factor", "default", 3),
        ("min_insync_replicas", "default", 2),
    ]
    assert shell("apply", "-f", file).exit_code == 0
    assert shell.json("diff", "-f", file) == []
    described = shell.json("describe", "stream", "acme/retail/prod/orders")
    assert described["replication"]["c1"]["declared"] == 3
    assert "replication" in shell("describe", "stream", "acme/retail/prod/orders").stdout


def _look_at_everything(shell: Shell) -> None:
    assert [row["name"] for row in shell.json("get", "clusters")["items"]] == ["c1", "c2", "c3"]
    everywhere = shell.json("get", "streams")["items"]
    assert everywhere == shell.json("get", "streams", "acme/retail/prod")["items"]
    assert [row["stream"] for row in everywhere] == ["acme/retail/prod/orders", "acme/retail/prod/payments"]
    assert len(shell.json("get", "distributors")) == 5
    assert shell.json("get", "clusters", "--at", "0")["items"] == []
    described = shell("describe", "cluster", "c1")
    assert described.exit_code == 0
    assert "bootstrap_servers" in described.stdout
    assert yaml.safe_load(shell("get", "instance", "acme/retail", "-o", "yaml").stdout)["tree"] == "main"


def _delete(shell: Shell) -> None:
    assert shell("delete", "stream", "acme/retail/prod/payments", "--dry-run").exit_code == 0
    deleted = shell("delete", "stream", "acme/retail/prod/payments")
    assert (deleted.exit_code, deleted.stdout) == (0, "")
    assert shell("get", "stream", "acme/retail/prod/payments").exit_code == 1
    leaf = shell("delete", "cluster", "c1")
    assert leaf.exit_code == 3
    assert "tree main" in leaf.stderr


def test_many_streams_are_declared_at_once_and_a_refusal_names_the_one(shell: Shell) -> None:
    prod: dict[str, Any] = {"streams": {f"s{number:03}": {"partitions": 2} for number in range(130)}}
    few = {**FILE, "tenants": {"acme": {"instances": {"retail": {"environments": {"prod": prod}}}}}}
    file = shell.file(few)
    applied = shell.json("apply", "-f", file)
    assert [row["place"] for row in applied][-130:] == [f"acme/retail/prod/{name}" for name in prod["streams"]]
    assert {row["action"] for row in applied} == {"create"}
    # Existing resources are found by their list, those that differ are changed, and the rest is created.
    prod["streams"] |= {"s005": {"partitions": 3}, "new": None}
    file = shell.file(few)
    assert {(row["place"], row["present"], row["wanted"]) for row in _differing(shell, file)} == {
        ("acme/retail/prod/s005", 2, 3),
        ("acme/retail/prod/new", None, None),
    }
    actions = {row["place"]: row["action"] for row in shell.json("apply", "-f", file)}
    assert {place: action for place, action in actions.items() if action != "keep"} == {
        "acme/retail/prod/s005": "change",
        "acme/retail/prod/new": "create",
    }
    prod["streams"] = {**{f"t{number}": None for number in range(20)}, "bad": {"partitions": 0}, "t20": None}
    for words in (("--dry-run",), ()):
        refused = shell("apply", "-f", shell.file(few), *words)
        assert refused.exit_code == 2
        assert "  acme/retail/prod/bad/partitions: must be from 1" in refused.stderr
        assert len(shell.json("get", "streams", "acme/retail/prod")["items"]) == 131


def _differing(shell: Shell, file: str) -> list[dict[str, Any]]:
    found = shell("diff", "-f", file, "--json")
    assert found.exit_code == 1, found.stderr
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def test_users_are_declared_and_given_what_they_need(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"ada": {"role": "operator"}, "bob": {"tenants": {"acme": "owner"}}}
    file = shell.file({"tenants": {"acme": {}}, "users": wanted})
    dry = shell("apply", "-f", file, "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert [row["place"] for row in shell.json("apply", "-f", file)] == ["acme", "ada", "bob"]
    assert {row["action"] for row in shell.json("apply", "-f", file)} == {"keep"}
    wanted["bob"]["tenants"] = {"acme": "member"}
    file = shell.file({"users": wanted})
    assert [row["action"] for row in shell.json("apply", "-f", file)] == ["keep", "change"]
    assert shell.json("get", "user", "bob")["tenants"] == {"acme": "member"}
    given = shell("member", "set", "acme", "bob", "owner")
    assert given.exit_code == 0, given.stderr
    assert shell.json("member", "list", "acme")["items"][0]["membership"] == "owner"
    monkeypatch.setenv("TREELINE_NEW_PASSWORD", "correct horse battery")
    assert shell("user", "password", "bob").exit_code == 0
    assert shell("delete", "user", "bob").exit_code == 2
    assert "name a user with --user" in shell("token", "list").stderr
    issued = shell("token", "issue", "ci", "--user", "bob", "--days", "9")
    assert issued.exit_code == 0, issued.stderr
    monkeypatch.setenv("TREELINE_TOKEN", issued.stdout.strip())
    settings.cache_clear()
    assert shell.json("whoami") == {"name": "bob", "role": "tenant", "tenants": {"acme": "owner"}, "token": "ci"}
    assert [item["name"] for item in shell.json("get", "tenants")["items"]] == ["acme"]
    refused = shell("get", "clusters")
    assert refused.exit_code == 5
    assert "You are not allowed to do this. this needs read-estate" in refused.stderr
    assert [item["name"] for item in shell.json("token", "list")["items"]] == ["ci"]
    assert shell("member", "remove", "acme", "bob").exit_code == 0
    assert shell("token", "revoke", "ci").exit_code == 0
    assert shell("whoami").exit_code == 5


def test_applications_are_declared_granted_and_given_passwords(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod: dict[str, Any] = {"streams": {"orders": None}}
    billing = {"produces": ["orders"], "consumes": ["globex/shop/prod/items"], "groups": ["b", "a"]}
    shop = {"instances": {"shop": {"environments": {"prod": {"streams": {"items": None}}}}}}
    retail = {"instances": {"retail": {"environments": {"prod": {**prod, "applications": {"billing": billing}}}}}}
    # globex comes last in the file, and still billing can request access to its stream.
    whole = {**FILE, "tenants": {"acme": retail, "globex": shop}}
    file = shell.file(whole)
    dry = shell("apply", "-f", file, "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert shell.json("apply", "-f", file)[-1] == {
        "kind": "application",
        "place": "acme/retail/prod/billing",
        "action": "create",
    }
    assert {row["action"] for row in shell.json("apply", "-f", file)} == {"keep"}
    assert shell.json("diff", "-f", file) == []
    billing |= {"produces": [], "request_percentage": 50}
    found = shell("diff", "-f", shell.file(whole), "--json")
    assert {row["field"]: (row["present"], row["wanted"]) for row in json.loads(found.stdout)} == {
        "produces": (["acme/retail/prod/orders"], []),
        "request_percentage": (None, 50),
    }
    assert shell.json("apply", "-f", shell.file(whole))[-1]["action"] == "change"
    grant = ("acme/retail/prod/billing", "globex/shop/prod/items", "consume")
    assert shell("withdraw", *grant, "--reason", "over").exit_code == 0
    [waiting] = shell.json("get", "grants", "globex")["items"]
    assert (waiting["state"], waiting["reason"]) == ("withdrawn", "over")
    assert shell.json("diff", "-f", shell.file(whole)) == []
    assert shell("refuse", *grant).exit_code == 3
    assert shell("grant", *grant, "--dry-run").exit_code == 0
    assert shell("grant", *grant).exit_code == 0
    assert [item["state"] for item in shell.json("get", "grants")["items"]] == ["granted"]
    issued = shell("credentials", "issue", grant[0])
    assert issued.exit_code == 0, issued.stderr
    assert len(issued.stdout.strip()) == 43
    assert shell.json("get", "application", grant[0])["credentials"] == {"number": 1}
    assert shell("credentials", "revoke", grant[0]).exit_code == 0
    assert shell("delete", "application", grant[0]).exit_code == 0
    assert shell.json("get", "applications")["items"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("get", "things"), "there are: application"),
        (("get", "stream", "acme/retail"), "TENANT/INSTANCE/ENVIRONMENT/STREAM"),
        (("get", "cluster"), "CLUSTER"),
        (("describe", "streams", "a"), "TENANT/INSTANCE/ENVIRONMENT/STREAM"),
        (("delete", "tenant", "acme"), "cannot be deleted"),
        (("delete", "grant", "acme"), "cannot be deleted"),
        (("get", "application", "billing"), "TENANT/INSTANCE/ENVIRONMENT/APPLICATION"),
        (("credentials", "issue", "billing"), "TENANT/INSTANCE/ENVIRONMENT/APPLICATION"),
        (("diff", "-f", "/nothing/here.yaml"), "cannot be read"),
    ],
)
def test_bad_input_is_2_with_a_sentence(words: tuple[str, ...], says: str, nobody: None) -> None:
    result = CliRunner().invoke(app, list(words))
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [", "cannot be read"),
        ("[1, 2]", "the file"),
        ("surprise: 1", "unknown section 'surprise'"),
        ("clusters: [c1]", "clusters:"),
        ("clusters: {c1: 7}", "clusters.c1:"),
        ("tenants: {acme: {instances: [retail]}}", "tenants.acme.instances:"),
        ("primary: c1", "primary:"),
        (
            "tenants: {a: {instances: {b: {environments: {c: {streams: {d.e: , d_e: }}}}}}}",
            "a/b/c/d.e and a/b/c/d_e cannot both exist",
        ),
        (
            "tenants: {a: {instances: {b: {environments: {c: {applications: {d: {produces: e}}}}}}}}",
            "tenants.a.instances.b.environments.c.applications.d.produces:",
        ),
    ],
)
def test_a_file_that_is_none_is_refused_at_its_place(
    content: str, says: str, tmp_path: Path, nobody: None
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(content)
    result = CliRunner().invoke(app, ["apply", "-f", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_a_control_plane_that_is_away_is_4_with_a_sentence(nobody: None) -> None:
    result = CliRunner().invoke(app, ["get", "clusters"])
    assert result.exit_code == 4
    assert "does not respond" in result.stderr
