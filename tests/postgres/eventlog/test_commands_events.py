"""`treeline events` and `treeline projections` against a real control plane over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn

from backend.api.app import create_app
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import domain_registry
from backend.eventlog.store import PostgresEventLog
from tests.nightly import some_now
from tests.postgres.eventlog.test_event_log_tampering import tamper
from tests.support.api.rest import TOKEN, rest_settings
from tests.support.database.postgres import Database
from tests.support.database.sample_events import TIME

PROGRAM = (
    "import typer; from backend.commands.history import events; app = typer.Typer(); events.register(app); app()"
)


@dataclass(frozen=True)
class Shell:
    """Runs the program against one control plane."""

    url: str
    database: Database

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            env={**os.environ, "TREELINE_URL": self.url, "TREELINE_TOKEN": TOKEN, "COLUMNS": "200"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate()
        return process.returncode, out, err

    def append(self, *tenants: str) -> None:
        created = domain_registry().classes["TenantCreated"]
        with self.database.engine.begin() as connection:
            log = PostgresEventLog(connection, domain_registry())
            for tenant in tenants:
                event = created(tenant=tenant)
                log.append(f"tenant-{tenant}", 0, [event], metadata=Metadata("tester", "r"), time=TIME)


@pytest.fixture
def shell(database: Database) -> Iterator[Shell]:
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(rest_settings(database.url))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield Shell(f"http://127.0.0.1:{listening.getsockname()[1]}", database)
    server.should_exit = True
    thread.join()


def test_events_are_listed_as_table_json_and_yaml(shell):
    shell.append("acme", "beta")
    code, out, _ = shell("events")
    assert code == 0
    assert all(word in out for word in ("tenant-acme", "tenant-beta", "TenantCreated", "tester"))
    code, out, _ = shell("events", "--json", "--after", "1")
    assert [item["stream"] for item in json.loads(out)] == ["tenant-beta"]
    code, out, _ = shell("events", "-o", "yaml", "--stream", "tenant-a", "--limit", "1")
    assert "stream: tenant-acme" in out
    assert "tenant-beta" not in out


def test_the_chain_is_checked_against_an_exported_head(shell, tmp_path):
    shell.append("acme", "beta", "gamma")
    code, exported, _ = shell("events", "export-head")
    assert code == 0
    head = tmp_path / "head.json"
    head.write_text(exported)
    code, out, _ = shell("events", "verify", "--head", str(head), "--json")
    assert (code, json.loads(out)["ok"], json.loads(out)["events"]) == (0, True, 3)
    tamper(
        shell.database,
        "DELETE FROM events WHERE position > 2",
        "UPDATE event_log_head h SET position = 2, hash = e.hash FROM events e WHERE e.position = 2",
    )
    assert shell("events", "verify")[0] == 0
    code, out, err = shell("events", "verify", "--head", str(head), "--json")
    assert (code, json.loads(out)["broken_at"]) == (1, 3)
    assert "broken at position 3" in err


@some_now("content", ["", "{}", '{"position": "x", "hash": "y"}', "[1]"], now=(0, 2))
def test_a_file_that_is_no_head_is_bad_input(shell, tmp_path, content):
    head = tmp_path / "head.json"
    head.write_text(content)
    code, _, err = shell("events", "verify", "--head", str(head))
    assert code == 2
    assert "head.json" in err


def test_following_shows_what_happens_from_a_position_on(shell):
    shell.append("acme")
    process = shell.start("events", "--follow", "--after", "0", "--json")
    assert json.loads(process.stdout.readline())["stream"] == "tenant-acme"
    shell.append("beta")
    assert json.loads(process.stdout.readline())["stream"] == "tenant-beta"
    process.kill()
    process.communicate()


def test_a_wrong_token_and_a_control_plane_that_is_away_are_told(shell):
    code, out, err = shell("events", TREELINE_TOKEN="wrong")
    assert (code, out) == (5, "")
    assert err.strip()
    code, out, err = shell("events", TREELINE_URL="http://127.0.0.1:9")
    assert (code, out) == (4, "")
    assert "does not respond" in err
    code, _, err = shell("events", TREELINE_URL="nonsense://")
    assert code != 0
    assert "Traceback" not in err


def test_projections_are_rebuilt(shell):
    shell.append("acme")
    code, out, _ = shell("projections", "rebuild", "--json")
    assert code == 0
    assert {item["position"] for item in json.loads(out)} == {1}
    code, out, _ = shell("projections", "rebuild", "tenants", "--json")
    assert [item["name"] for item in json.loads(out)] == ["tenants"]
    code, _, err = shell("projections", "rebuild", "no-such-one")
    assert code == 1
    assert "tenants" in err
