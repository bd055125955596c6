"""Starting processes are waited for as long as they make progress, and given up when they are stuck."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from backend.estate import boot, control_plane, start_progress
from backend.estate.control_plane import ControlPlane, Refused, _declare
from backend.estate.start_progress import PATIENCE_SECONDS, Patience, family, waited
from tests.eventually import eventually
from tests.unit.estate.test_supervisor import Supervision
from tests.unit.estate.test_supervisor import supervision as supervision


def asleep(pids: list[int]) -> list[str]:
    """Return the names of the programs of those processes that sleep."""
    told = [Path(f"/proc/{pid}/stat").read_text().rpartition(")") for pid in pids]
    return [before.partition("(")[2] for before, _, after in told if after.split()[0] == "S"]


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & wait"]) as process:
        # A program that is still read from the disk waits for it, as `waited` would tell.
        eventually(lambda: asleep(family(process.pid)) == ["sh", "sleep"], "the shell and its child are asleep")
        yield process.pid
        for pid in reversed(family(process.pid)):
            subprocess.run(["kill", "-9", str(pid)], check=True)


def test_what_stands_still_uses_up_its_patience(sleeper: int) -> None:
    clock = Patience()
    for now in (0.0, PATIENCE_SECONDS / 2, PATIENCE_SECONDS - 1):
        clock.look({"server": sleeper}, {"server": "starting"}, now)
        assert not clock.is_over("server")
    clock.look({"server": sleeper}, {"server": "starting"}, PATIENCE_SECONDS + 2)
    assert clock.is_over("server") and not clock.is_over("another")


@pytest.mark.parametrize(
    ("queued_each_second", "disk", "over_after"),
    [
        (0.0, False, 130),
        (0.5, False, 250),
        (0.9, False, 1210),  # a start that takes 12 s of CPU takes 120 s, and had 12
        (40.0, False, 2410),  # many threads that all wait: the minimum share counts
        (0.0, True, 2410),
    ],
)
def test_waiting_for_a_cpu_or_the_disk_costs_no_patience(
    monkeypatch: pytest.MonkeyPatch, sleeper: int, queued_each_second: float, disk: bool, over_after: int
) -> None:
    now = 0.0
    monkeypatch.setattr(start_progress, "waited", lambda pids: (now * queued_each_second, disk))
    clock = Patience()
    while not clock.is_over("server"):
        clock.look({"server": sleeper}, {"server": "starting"}, now)
        now += 10.0
    assert now - 10.0 == over_after


def test_whenever_another_is_ready_the_clocks_begin_anew(sleeper: int) -> None:
    clock = Patience()
    others = ["waiting", "starting", "running", "running"]
    for step, other in enumerate(others):
        clock.look({"server": sleeper}, {"server": "starting", "other": other}, step * 50.0)
        assert not clock.is_over("server")
    clock.look({"server": sleeper}, {"server": "starting", "other": "running"}, 200.0)
    assert clock.is_over("server")


def test_this_kernel_counts_what_threads_wait_for(sleeper: int) -> None:
    seconds, disk = waited(family(sleeper))
    assert seconds >= 0 and not disk
    assert waited([2**22 + 1]) == (0.0, False)  # a process that has ended


def test_up_gives_up_what_stands_still_and_names_it(
    supervision: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "Patience", lambda: Patience(seconds=0.5))
    monkeypatch.setattr(boot, "SAY_EVERY_SECONDS", 0.0)
    supervision.add("stuck", "exec sleep 1000")
    supervision.add("server", "echo up; exec sleep 1000")
    supervision.start()
    supervision.until("server", "running")
    said: list[str] = []
    state = boot._wait(supervision.home, said.append, deaths_allowed=3)
    assert [row["name"] for row in state["processes"] if row["state"] == "starting"] == ["stuck"]
    assert any(line.startswith("waiting for stuck") for line in said)


class ApiOnce(BaseHTTPRequestHandler):
    """Server that answers each request with its next answer, and stores the requests."""

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append(body)
        status, answer = self.server.answers.pop(0)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(control_plane, "RETRY_SECONDS", 0.0)
    server: Any = HTTPServer(("127.0.0.1", 0), ApiOnce)
    server.answers, server.received = [], []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


BUSY = (503, {"title": "Service unavailable"})
MADE = (201, {"name": "c1"})
AWAY = (422, {"type": "urn:treeline:cluster-unreachable", "title": "The cluster does not answer"})


def test_a_busy_control_plane_is_asked_again(api: Any) -> None:
    api.answers += [BUSY, BUSY, MADE]
    with ControlPlane(api.url, "token", tries=3) as client:
        assert client.create("/api/v1/clusters", {"name": "c1"})
    assert len(api.received) == 3


def test_it_is_not_asked_for_ever_and_status_asks_once(api: Any) -> None:
    for tries in (1, 3):
        api.answers += [BUSY] * tries
        with ControlPlane(api.url, "token", tries=tries) as client, pytest.raises(Refused, match="503"):
            client.create("/api/v1/clusters", {"name": "c1"})
    assert len(api.received) == 4


def test_a_cluster_that_is_slow_to_answer_is_declared_all_the_same(api: Any) -> None:
    api.answers += [AWAY, AWAY, AWAY, MADE]
    with ControlPlane(api.url, "token") as client:
        _declare(client, {"name": "c1"}, is_down=False, progress=lambda _: None)
    assert [body["accept_offline"] for body in api.received] == [False, False, False, True]
