"""`treeline schemas` for users with restricted permissions, through a context, and with clusters that are down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.commands.shell.exit_codes import Code
from tests.nightly import some_now
from tests.postgres.schemas.test_schemas_pages import MINE, NOBODYS, THEIRS, avro, version, was_read
from tests.support.api.program import Program
from tests.support.console.consoles import serve_here
from tests.support.console.visitors import Visitor, clusters_and_tenants
from tests.support.database.postgres import RunningPostgres


@pytest.fixture(scope="module")
def program(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Yield the program with subjects of acme, globex and no tenant on c1, the primary, which is down."""
    postgres.create("cli_schemas", postgres.template(clusters_and_tenants))
    folder = tmp_path_factory.mktemp("schemas")
    with serve_here(postgres.server.url("cli_schemas"), with_schemas=True) as console:
        was_read(
            console,
            "c1",
            *(
                version(each, 1, number, avro(f"f{number}"))
                for number, each in enumerate((MINE, THEIRS, NOBODYS), 1)
            ),
        )
        (folder / "order.avsc").write_text(avro("f1", "more?"))
        tokens = {
            "viewer": Visitor(console, "vic", "viewer").token,
            "member": Visitor(console, "ada", acme="member").token,
        }
        for name, token in tokens.items():
            (folder / name).write_text(token)
        yield Program(console.url, folder)


def token_of(program: Program, name: str) -> dict[str, str]:
    return {"TREELINE_TOKEN": (program.folder / name).read_text()}


def test_a_tenants_user_is_shown_its_own_subjects_and_shared_ones(program: Program) -> None:
    seen = program("schemas", "subjects", "--cluster", "c1", **token_of(program, "member"))
    assert (seen.returncode, MINE in seen.stdout, THEIRS in seen.stdout) == (0, True, False), seen.stderr
    assert THEIRS in program("schemas", "subjects").stdout
    unsaid = program("schemas", "subjects", **token_of(program, "member"))
    assert (unsaid.returncode, "Give --cluster" in unsaid.stderr) == (Code.BAD_INPUT, True), unsaid.stderr


@some_now(
    "user, words, code, says",
    [
        ("member", ("versions", THEIRS), Code.NOT_SO, f"Subject '{THEIRS}' not found"),
        ("member", ("delete", THEIRS, "--dry-run"), Code.NOT_SO, "40401"),
        ("member", ("level", THEIRS, "--set", "none", "--dry-run"), Code.NOT_SO, "40401"),
        ("member", ("register", THEIRS, "-f", "order.avsc", "--dry-run"), Code.NOT_SO, "40401"),
        ("member", ("delete", MINE, "--dry-run"), Code.NOT_ALLOWED, "40302"),
        ("member", ("level", "--set", "none"), Code.NOT_ALLOWED, "40302"),
        ("viewer", ("delete", MINE, "--permanent", "--yes"), Code.NOT_ALLOWED, "40302"),
        ("viewer", ("register", MINE, "-f", "order.avsc", "--dry-run"), Code.NOT_ALLOWED, "40302"),
    ],
    now=(0, 3),
)
def test_what_a_user_may_not_do_is_refused_as_by_the_registry(
    program: Program, user: str, words: tuple[str, ...], code: Code, says: str
) -> None:
    ended = program("schemas", *words, "--cluster", "c1", **token_of(program, user))
    assert (ended.returncode, ended.stdout, says in ended.stderr) == (code, "", True), ended.stderr


@pytest.mark.nightly  # test_cli_exit_codes has the token of nobody
def test_a_token_of_nobody_opens_nothing(program: Program) -> None:
    for words in (("subjects",), ("subjects", "--cluster", "c1"), ("show-id", "1", "--cluster", "c1")):
        ended = program("schemas", *words, TREELINE_TOKEN="of nobody")
        assert (ended.returncode, ended.stdout, "token" in ended.stderr) == (Code.NOT_ALLOWED, "", True)
        assert "of nobody" not in ended.stderr


def test_what_is_away_is_told_apart_from_what_is_refused(program: Program) -> None:
    assert program("schemas", "show", MINE).returncode == Code.OK, "it was read before"
    for dry in ((), ("--dry-run",)):
        ended = program("schemas", "delete", MINE, *dry)
        assert (ended.returncode, "50001" in ended.stderr) == (Code.AWAY, True), ended.stderr
    assert program("schemas", "subjects", "--cluster", "c2").returncode == Code.AWAY, "never read"
    assert program("schemas", "subjects", TREELINE_URL="http://127.0.0.1:9").returncode == Code.AWAY


def test_where_it_goes_is_said_of_what_changes_something(program: Program) -> None:
    made = program("context", "set", "prod", "--url", program.url, "--token", "${env:TREELINE_TOKEN}")
    assert made.returncode == 0, made.stderr
    file = ("-f", "order.avsc")
    for words in (("check", MINE, *file), ("find", MINE, *file), ("subjects",), ("delete", MINE, "--dry-run")):
        ended = program("--context", "prod", "schemas", *words)
        assert "This goes to" not in ended.stderr, words
    for words in (("register", MINE, *file), ("delete", MINE), ("level", MINE, "--set", "none")):
        ended = program("--context", "prod", "schemas", *words)
        assert f"This goes to {program.url}" in ended.stderr, words
