"""Every REST route has a command; every command has an example, an output format and a dry run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from backend.api.app import create_app
from backend.cli import app
from backend.commands.shell import kinds
from backend.commands.shell.examples import EXAMPLES, examples_of
from backend.commands.shell.exit_codes import Code
from backend.registry.routes import ROUTES
from backend.settings import PROJECT_ROOT, Settings
from docs.verbs import ELSEWHERE, REGISTRY_ELSEWHERE, REGISTRY_VERBS, VERBS, WITHOUT_DRY_RUN
from tests.support.api.commands_parsed import parsed

ROOT = typer.main.get_command(app)
TO_FILES = {
    "audit export": "a file, CSV or JSON lines",
    "completion": "a script",
    "events export-head": "a file for `events verify --head`, JSON",
    "export": "a file for `apply -f`, YAML",
    "logs": "a log as it is",
}
"""Commands that print no table, each with what they print."""
SAYS_ONLY = {
    "context delete",
    "context set",
    "context use",
    "credentials revoke",
    "delete",
    "discovery forget",
    "down",
    "grant",
    "member remove",
    "member set",
    "refuse",
    "token revoke",
    "user disable",
    "user enable",
    "user link",
    "user password",
    "user unlink",
    "webhook retry",
    "withdraw",
    "zones forget",
}
"""Commands that print no data, but say on stderr what they have done."""
STATE = {
    "describe",
    "discovery clients",
    "discovery show",
    "distributor show",
    "get",
    "losses list",
    "member list",
    "offsets not-followed",
    "replication show",
    "schemas list",
    "schemas subjects",
    "schemas targets",
    "schemas versions",
    "set-aside list",
    "status",
    "token list",
    "webhook deliveries",
    "zones",
    "zones epochs",
}
"""Commands that show a state, and so accept `--watch`."""
EXITS = re.compile(r"\b[Ee]xits?(?: codes?)?(?: with)? (\d[^.]*)")
EXIT = re.compile(r"(?: *exit)? *(\d+)\b:?(.*)")
SAID_OF_CODES = {
    r"changed (since|while|meanwhile)|another by then|confirmation is missing|another estate": Code.CONFLICT,
    r"does not (answer|respond)|is away": Code.AWAY,
    r"not allowed|not logged in": Code.NOT_ALLOWED,
    r"missing somewhere|still lacks|not taken|refused meanwhile|no such": Code.NOT_SO,
}
"""Phrases that belong to only one exit code."""


def leaves(command: Any = ROOT, path: str = "") -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None or (path and command.invoke_without_command):
        yield path, command
    for name, child in (children or {}).items():
        yield from leaves(child, f"{path} {name}".strip())


COMMANDS = dict(leaves())


def options(command: Any) -> set[str]:
    return {word for parameter in command.params for word in parameter.opts}


def routes() -> list[tuple[str, bool]]:
    """Return each route, below /api/v1 where it is there, and whether it supports a dry run."""
    found = []
    for path, methods in create_app(Settings()).openapi()["paths"].items():
        for method, about in methods.items():
            dry = any(parameter["name"] == "dry_run" for parameter in about.get("parameters", []))
            found.append((f"{method.upper()} {path.removeprefix('/api/v1')}", dry))
    return found


def command_of(verb: str) -> tuple[str, list[str]]:
    """Return the command that a verb names, and the arguments that follow."""
    words = verb.split()
    for length in range(len(words), 0, -1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    raise AssertionError(f"there is no command `treeline {verb}`")


def test_every_route_has_a_verb_or_a_reason_why_not():
    there = [route for route, _ in routes()]
    assert [route for route in there if route not in VERBS and route not in ELSEWHERE] == []
    assert [route for route in (*VERBS, *ELSEWHERE) if route not in there] == [], "routes that are gone"
    assert VERBS.keys() & ELSEWHERE.keys() == set()
    assert all(VERBS.values())
    assert all(ELSEWHERE.values())


def test_every_route_of_a_registry_has_a_verb_or_a_reason_why_not():
    there = {f"{method} /{path}" for path, methods in ROUTES.items() for method in methods}
    assert there == REGISTRY_VERBS.keys() | REGISTRY_ELSEWHERE.keys()
    assert REGISTRY_VERBS.keys() & REGISTRY_ELSEWHERE.keys() == set()
    assert all(REGISTRY_VERBS.values())
    assert all(REGISTRY_ELSEWHERE.values())


ALL_VERBS = [
    (route, verb) for found in (VERBS, REGISTRY_VERBS) for route, verbs in found.items() for verb in verbs
]


@pytest.mark.parametrize("verb", sorted({verb for _, verb in ALL_VERBS}))
def test_every_verb_is_a_command_with_what_is_said_of_it(verb: str):
    path, rest = command_of(verb)
    for word in rest:
        if word.startswith("--"):
            assert word in options(COMMANDS[path]), verb
        else:
            assert word in kinds.WORDS, verb


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_command_has_examples_that_the_program_understands(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TREELINE_NEW_PASSWORD", "not asked for")
    assert EXAMPLES.get(path), "give an example in backend/commands/shell/examples.py"
    for line in examples_of(path):
        words = shlex.split(re.split(r" [|<>] ", line)[0])
        assert words[0] == "treeline"
        context = parsed(words[1:])
        file = re.search(r" > \S+\.(csv|jsonl)", line)
        assert file is None or context.params["form"] == file[1], "the file is called after what is in it"
        assert context.command_path.endswith(path.rpartition(" ")[2]), line


def test_no_example_is_of_a_command_that_is_gone():
    assert EXAMPLES.keys() - COMMANDS.keys() == set()


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_command_that_prints_data_prints_it_in_the_form_that_is_wanted(path: str):
    prints_data = path not in {*TO_FILES, *SAYS_ONLY}
    assert {"--output", "--json"} & options(COMMANDS[path]) == ({"--output", "--json"} if prints_data else set())


@pytest.mark.parametrize("path", sorted(STATE))
def test_what_shows_a_state_can_be_watched(path: str):
    assert {"--watch", "-w"} <= options(COMMANDS[path])


def texts() -> Iterator[tuple[str, str]]:
    for path, command in COMMANDS.items():
        yield path, " ".join([command.help or "", *(getattr(each, "help", None) or "" for each in command.params)])
    for page in sorted(Path(PROJECT_ROOT, "docs").rglob("*.md")):
        if page.parent.name != "decisions":
            yield page.name, page.read_text()


def test_what_texts_say_of_exit_codes_is_what_the_table_says():
    found = [
        (place, *said.groups())
        for place, text in texts()
        for sentence in EXITS.findall(" ".join(text.split()))
        for said in map(EXIT.match, sentence.split(";"))
        if said
    ]
    assert {int(code) for _, code, _ in found} <= set(Code)
    meant = [
        (place, clause, int(code), right)
        for place, code, clause in found
        for words, right in SAID_OF_CODES.items()
        if re.search(words, clause)
    ]
    assert {right for *_, right in meant} >= {Code.NOT_SO, Code.CONFLICT, Code.AWAY}, "texts tell of them"
    assert [each for each in meant if each[2] != each[3]] == []


def test_every_command_that_changes_something_can_be_tried_dry():
    asked = dict(routes())
    changing = {command_of(verb)[0] for route, verb in ALL_VERBS if route[:3] != "GET"}
    without = {path for path in changing if "--dry-run" not in options(COMMANDS[path])}
    assert without == WITHOUT_DRY_RUN.keys()
    writes = [route for route in VERBS if asked[route]]
    assert len(writes) > 30, "the API takes dry_run"
