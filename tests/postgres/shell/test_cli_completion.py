"""Shell completion: by bash itself, and by the requests that the scripts of zsh and fish make of the program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nightly import some_now
from tests.postgres.shell.test_rest_commands import FILE
from tests.support.api.program import Program, program_of
from tests.support.database.postgres import RunningPostgres, fresh_database

TREELINE = Path(sys.executable).parent / "treeline"
BASH = """\
source <(treeline completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_treeline_completion treeline
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def program(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("completion")
    with fresh_database(postgres) as database, program_of(database.url, folder) as found:
        file = folder / "declared.yaml"
        globex = {"instances": {"shop": {"environments": {"prod": {"streams": {"items": None}}}}}}
        users = {"ada": {"role": "viewer"}, "bob": {"role": "viewer"}}
        file.write_text(json.dumps({**FILE, "tenants": {**FILE["tenants"], "globex": globex}, "users": users}))
        assert found("apply", "-f", str(file)).returncode == 0
        made = found("context", "set", "prod", "--url", found.url, "--token", "${env:TREELINE_TOKEN}")
        assert made.returncode == 0, made.stderr
        yield found


def completed(program: Program, *words: str, **changed: str) -> list[str]:
    """Return what bash offers for the last word, with the script that the program prints."""
    environment = program.environment | {"PATH": f"{TREELINE.parent}:/usr/bin:/bin"} | changed
    ended = subprocess.run(
        [str(shutil.which("bash")), "-c", BASH, "bash", "treeline", *words],
        cwd=program.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == "", "who presses Tab has not asked for messages"
    return ended.stdout.split()


@some_now(
    "words, offers",
    [
        (("comp",), ["completion"]),
        (("get", "stre"), ["stream", "streams"]),
        (("get", "cluster", "c"), ["c1", "c2", "c3"]),
        (("describe", "clusters", "c"), ["c1", "c2", "c3"]),
        (("get", "clusters", "c"), []),
        (("get", "tree", ""), ["main"]),
        (("get", "stream", ""), ["acme/", "globex/"]),
        (("get", "stream", "acme/"), ["acme/retail/prod/orders", "acme/retail/prod/payments"]),
        (("get", "stream", "acme/retail/prod/o"), ["acme/retail/prod/orders"]),
        (("get", "streams", "gl"), ["globex/shop/prod"]),
        (("get", "grants", "a"), ["acme"]),
        (("delete", "stream", "gl"), ["globex/shop/prod/items"]),
        (("distributor", "pause", "c"), ["c1", "c2", "c3"]),
        (("replication", "show", "c3"), ["c3"]),
        (("switch", "plan", "--from", "c"), ["c1", "c2", "c3"]),
        (("switch", "watch", ""), []),
        (("placement", "watch", ""), []),
        (("discovery", "show", "a"), ["acme/retail/prod"]),
        (("user", "disable", ""), ["ada", "bob"]),
        (("member", "set", "acme", "b"), ["bob"]),
        (("--context", ""), ["prod", "local"]),
        (("context", "use", "p"), ["prod"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("get", "clusters", "-o", "y"), ["yaml"]),
    ],
    now=(1, 7),
)
def test_bash_completes(program: Program, words: tuple[str, ...], offers: list[str]) -> None:
    assert completed(program, *words) == offers


def test_names_are_those_of_the_context_that_is_named(program: Program) -> None:
    elsewhere = {"TREELINE_URL": "http://127.0.0.1:9", "TREELINE_TOKEN": program.environment["TREELINE_TOKEN"]}
    assert completed(program, "get", "cluster", "c", **elsewhere) == []
    assert completed(program, "--context", "prod", "get", "cluster", "c", **elsewhere) == ["c1", "c2", "c3"]


@some_now(
    "changed",
    [
        {"TREELINE_URL": "http://127.0.0.1:9"},
        {"TREELINE_URL": "nonsense://"},
        {"TREELINE_TOKEN": "wrong"},
        {"TREELINE_CONTEXT": "nowhere", "TREELINE_URL": "http://127.0.0.1:9"},
    ],
    now=(0,),
)
def test_without_an_answer_nothing_is_offered_and_nothing_said(program: Program, changed: dict[str, str]) -> None:
    assert completed(program, "get", "cluster", "c", **changed) == []


def test_zsh_and_fish_are_offered_the_same(program: Program) -> None:
    def asked(**variables: str) -> str:
        ended = subprocess.run(
            [str(TREELINE)],
            cwd=program.folder,
            env=program.environment | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout

    zsh = asked(_TREELINE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="treeline get cluster c")
    assert [name in zsh for name in ("c1", "c2", "c3")] == [True] * 3
    fish = asked(
        _TREELINE_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS="treeline get cluster c",
    )
    assert fish.split() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_that_its_shell_takes(program: Program, shell: str) -> None:
    script = program("completion", shell)
    assert (script.returncode, script.stderr, "_TREELINE_COMPLETE" in script.stdout) == (0, "", True)
    there = shutil.which(shell)
    if there is not None:
        assert subprocess.run([there, "-n"], input=script.stdout, text=True, check=False).returncode == 0


def test_of_another_shell_there_is_none(program: Program) -> None:
    ended = program("completion", "csh")
    assert (ended.returncode, "'bash', 'zsh'" in ended.stderr) == (2, True)
