"""`--watch`: redrawn in place in a terminal, a document for each change elsewhere, also after a restart."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from backend.cli import app
from backend.commands.shell import watch
from backend.commands.shell.output import Form, Shown
from backend.commands.shell.watch import follow
from backend.settings import settings
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.api.program import WORDS, Program, program_of
from tests.support.api.rest import TOKEN
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import serve
from tests.support.database.postgres import Database

FAST = ("--watch", "0.1")
COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-9][0-9;]*m")


@pytest.fixture
def program(database: Database, tmp_path: Path) -> Iterator[Program]:
    with program_of(database.url, tmp_path) as found:
        yield found


def create(program: Program, tenant: str) -> None:
    RestClient(program.url, TOKEN).ok("POST", "/tenants", {"name": tenant})


def end(running: subprocess.Popen[str]) -> str:
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130, said
    return said


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline()


def names(text: str) -> list[str]:
    return [item["name"] for item in json.loads(text)["items"]]


def test_each_change_is_a_line_of_json(program: Program) -> None:
    create(program, "acme")
    running = program.start("get", "tenants", *FAST, "-o", "json")
    assert names(line(running)) == ["acme"]
    create(program, "beta")
    assert names(line(running)) == ["acme", "beta"]
    assert end(running) == ""


def test_what_did_not_change_is_not_said_again_and_ages_are_no_change(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([{"n": 1, "age_seconds": 1}, {"n": 1, "age_seconds": 2}, {"n": 2, "age_seconds": 3}])

    def look() -> Shown:
        answer = next(looks, None)
        if answer is None:
            raise KeyboardInterrupt
        return Shown(answer=answer, columns=("n",), rows=[answer])

    with pytest.raises(KeyboardInterrupt):
        follow(look, Form.JSON, 0.001)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"n": 1, "age_seconds": 1}, {"n": 2, "age_seconds": 3}]


def test_each_change_is_a_document_of_yaml(program: Program) -> None:
    running = program.start("get", "tenants", *FAST, "-o", "yaml")
    assert running.stdout is not None
    read = [line(running), line(running), line(running)]
    create(program, "acme")
    while read.count("---\n") < 2 or not read[-1].startswith("next_cursor"):
        read.append(line(running))
    end(running)
    first, second = list(yaml.safe_load_all("".join(read)))
    assert (first["items"], [item["name"] for item in second["items"]]) == ([], ["acme"])


@pytest.mark.nightly
def test_a_control_plane_that_restarts_is_waited_for(database: Database, tmp_path: Path) -> None:
    with serve(database.url, tmp_path / "first.log") as (console, process):
        program = Program(console.url, tmp_path)
        create(program, "acme")
        running = program.start("describe", "tenant", "acme", *FAST, "-o", "json")
        running_list = program.start("get", "tenants", *FAST, "-o", "json")
        assert json.loads(line(running))["name"] == "acme"
        assert names(line(running_list)) == ["acme"]
        process.kill()
        process.wait()
        assert running_list.stderr is not None
        assert "does not respond" in running_list.stderr.readline()
        assert "Trying again" in running_list.stderr.readline()
    port = int(program.url.rpartition(":")[2])
    with serve(database.url, tmp_path / "second.log", port):
        assert "responds again" in running_list.stderr.readline()
        create(program, "beta")
        assert names(line(running_list)) == ["acme", "beta"]
        assert end(running_list) == "", "it was said once that it was away"
        end(running)


@pytest.mark.nightly  # a control plane that is away: test_cli_exit_codes
def test_one_that_never_answered_is_not_waited_for(program: Program) -> None:
    ended = program("get", "tenants", "-w", TREELINE_URL="http://127.0.0.1:9")
    assert (ended.returncode, ended.stdout) == (4, "")
    ended = program("get", "tenant", "acme", "-w")
    assert (ended.returncode, ended.stdout) == (1, ""), "what is not there cannot be watched"


@some_now("words", [("status", "--watch", "0.1"), ("get", "tenants", "-w", "3600")], now=(0,))
def test_it_ends_when_nobody_reads_any_more(program: Program, words: tuple[str, ...]) -> None:
    running = program.start(*words, "-o", "json")
    assert json.loads(line(running))
    assert running.stdout is not None and running.stderr is not None
    running.stdout.close()
    try:
        eventually(lambda: running.poll() is not None, "it ends, though nothing changes")
    finally:
        running.kill()
    assert (running.wait(), running.stderr.read()) == (0, "")


def test_an_answer_that_does_not_come_is_not_waited_for_long(program: Program) -> None:
    environment = program.environment | {"TREELINE_TOKEN": "any"}
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("TREELINE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        patch.setattr(watch, "ANSWER_SECONDS", 0.1)
        settings.cache_clear()
        ended = CliRunner().invoke(app, ["get", "tenants", "-w"])
    settings.cache_clear()
    assert (ended.exit_code, "does not respond" in ended.stderr) == (4, True), ended.stderr


def drawn(program: Program, *words: str, until: bytes, **changed: str) -> bytes:
    """Return the contents of a terminal of 12 lines when `until` appears; the program is then interrupted."""
    ours, theirs = pty.openpty()
    environment = program.environment | {"TERM": "xterm-256color", "LINES": "12", "COLUMNS": "100"} | changed
    running = subprocess.Popen(
        [*WORDS, *words], cwd=program.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""

    def there() -> bool:
        nonlocal seen
        seen += os.read(ours, 10_000)
        return until in seen

    eventually(there, f"{until!r} is drawn")
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    os.close(ours)
    return seen


def test_in_a_terminal_it_is_drawn_in_place_and_not_below_its_last_line(program: Program) -> None:
    for number in range(20):
        create(program, f"tenant-{number:02}")
    frames = drawn(program, "get", "tenants", *FAST, until=b"\x1b[J\x1b[H").split(b"\x1b[J")
    assert frames[0].startswith(b"\x1b[2J\x1b[H") and b"tenant-00" in frames[0]
    assert b"more lines: the window is too small" in frames[0]
    assert frames[0].count(b"\n") <= 11
    assert frames[1].startswith(b"\x1b[H"), "over what stood there"


def test_colours_are_for_terminals_that_want_them(program: Program) -> None:
    create(program, "acme")
    assert "\x1b" not in program("get", "tenants").stdout
    assert "\x1b" not in program("events").stdout
    assert "\x1b" not in program("get", "nothing").stderr
    shown = drawn(program, "get", "tenants", "-w", until=b"acme", NO_COLOR="1")
    assert not COLOUR.search(shown)


@some_now("words", [("get", "tenants", "-w"), ("get", "-w", "tenants"), ("zones", "-w", "-o", "json")], now=(0,))
def test_seconds_may_be_left_out(program: Program, words: tuple[str, ...]) -> None:
    running = program.start(*words)
    assert line(running)
    end(running)


@some_now(
    "words, says",
    [
        (("get", "tenants", "-w", "0"), "greater than or equal to"),
        (("get", "tenants", "--watch=soon"), "valid number"),
        (("get", "tenants", "-w", "--at", "0"), "--at or --watch"),
    ],
    now=(2,),
)
def test_what_cannot_be_watched_is_bad_input(program: Program, words: tuple[str, ...], says: str) -> None:
    ended = program(*words)
    assert (ended.returncode, ended.stdout, says in ended.stderr) == (2, "", True), ended.stderr


def test_the_status_of_the_local_estate_is_watched_without_one(program: Program) -> None:
    running = program.start("status", *FAST, "-o", "json")
    assert json.loads(line(running))["estate"] is None
    end(running)
    assert "No estate runs" in program("status").stdout
