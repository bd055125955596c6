"""The program's exit codes, each by a real run against a real control plane."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backend.commands.shell.exit_codes import MEANINGS, Code, code_of
from tests.eventually import eventually
from tests.nightly import some_now
from tests.postgres.shell.test_rest_commands import FILE
from tests.support.api.program import Program, program_of
from tests.support.api.rest import NOBODY_LISTENS
from tests.support.database.postgres import RunningPostgres


@pytest.fixture(scope="module")
def program(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Yield the program with a control plane that has what FILE declares."""
    postgres.create("exit_codes", postgres.template(None))
    with program_of(postgres.server.url("exit_codes"), tmp_path_factory.mktemp("program")) as found:
        file = found.folder / "declared.yaml"
        file.write_text(json.dumps(FILE))
        assert found("apply", "-f", str(file)).returncode == 0
        environments = {"prod": {"streams": {"private": {"distributed": False}}}}
        file.write_text(
            json.dumps({"tenants": {"acme": {"instances": {"retail": {"environments": environments}}}}})
        )
        assert found("apply", "-f", str(file)).returncode == 0
        yield found


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("get", "clusters"), Code.OK, ""),
        (("get", "cluster", "c9"), Code.NOT_SO, "c9"),
        (("diff", "-f", "other.yaml"), Code.NOT_SO, ""),
        (("switch", "plan", "--from", "c1", "--to", "c2"), Code.NOT_SO, "Blocker"),
        (("get", "things"), Code.BAD_INPUT, "there are: application"),
        (("get", "clusters", "--at", "x"), Code.BAD_INPUT, "--at"),
        (("nonsense",), Code.BAD_INPUT, "No such command"),
        (("apply", "-f", "bad.yaml"), Code.BAD_INPUT, "must be from 1"),
        (("--context", "nowhere", "get", "clusters"), Code.BAD_INPUT, "no context 'nowhere'"),
        (("delete", "cluster", "c1"), Code.CONFLICT, "tree main"),
        (("verify", "--stream", "nobody/retail/prod/orders"), Code.NOT_SO, "nobody"),
        (("verify", "--stream", "orders"), Code.BAD_INPUT, "'orders' is not tenant/instance"),
        (("verify", "--stream", "acme/retail/prod/private"), Code.BAD_INPUT, "nothing to verify"),
    ],
)
def test_a_code_says_how_it_ended(program: Program, words: tuple[str, ...], code: Code, says: str) -> None:
    tenants = {
        "acme": {"instances": {"retail": {"environments": {"prod": {"streams": {"new": {"partitions": 0}}}}}}}
    }
    (program.folder / "bad.yaml").write_text(json.dumps({"tenants": tenants}))
    (program.folder / "other.yaml").write_text(json.dumps({"tenants": {"globex": {}}}))
    ended = program(*words)
    assert (ended.returncode, says in ended.stderr) == (code, True), ended.stderr
    assert "Traceback" not in ended.stderr
    if code is Code.OK:
        assert (json.loads(program(*words, "-o", "json").stdout)["next_cursor"], ended.stderr) == (None, "")
    elif words[0] not in ("diff", "switch"):
        assert ended.stdout == "", "what went wrong is no data"


def test_what_is_wrong_with_an_option_is_said_once(program: Program) -> None:
    ended = program("audit", "--since", "abc")
    assert ended.returncode == Code.BAD_INPUT and ended.stderr.count("since") == 1, ended.stderr
    assert ended.stderr.startswith("The request is not valid: since: ")


@some_now(
    "changed, code, says",
    [
        ({"TREELINE_TOKEN": "of nobody"}, Code.NOT_ALLOWED, "the token is unknown, has expired, or was revoked"),
        ({"TREELINE_URL": f"http://{NOBODY_LISTENS}"}, Code.AWAY, "does not respond"),
        (
            {"TREELINE_URL": "nonsense://"},
            Code.BAD_INPUT,
            "TREELINE_URL: 'nonsense://' is not a URL of a control plane",
        ),
        ({"TREELINE_URL": "nonsense"}, Code.BAD_INPUT, "TREELINE_URL: 'nonsense' is not a URL of a control plane"),
        ({"TREELINE_URL": "http://[::1"}, Code.BAD_INPUT, "http://[::1"),
        ({"TREELINE_TOKEN": "two\nlines"}, Code.BAD_INPUT, "TREELINE_TOKEN: the token has characters"),
        ({"TREELINE_OFFSETS_PARTITIONS": "none"}, Code.BAD_INPUT, "TREELINE_OFFSETS_PARTITIONS"),
    ],
    now=(0, 1, 2),
)
@pytest.mark.parametrize("words", [("get", "clusters"), ("verify", "--records", "1")])
def test_who_is_asked_and_how_is_told_apart(
    program: Program, words: tuple[str, ...], changed: dict[str, str], code: Code, says: str
) -> None:
    ended = program(*words, **changed)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "of nobody" not in ended.stderr and "two" not in ended.stderr


def test_what_a_user_may_not_do_is_5_and_names_what_is_missing(program: Program) -> None:
    users = program.folder / "users.yaml"
    users.write_text(json.dumps({"users": {"ada": {"role": "viewer"}}}))
    assert program("apply", "-f", str(users)).returncode == 0
    issued = program("token", "issue", "ci", "--user", "ada")
    assert issued.returncode == 0, issued.stderr
    refused = program("user", "disable", "ada", TREELINE_TOKEN=issued.stdout.strip())
    assert (refused.returncode, "manage-users" in refused.stderr) == (Code.NOT_ALLOWED, True), refused.stderr


def test_ctrl_c_ends_with_130(program: Program) -> None:
    running = program.start("get", "clusters", "--watch", "-o", "json")
    assert running.stdout is not None and running.stderr is not None
    assert json.loads(running.stdout.readline())["next_cursor"] is None
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert (running.returncode, "Traceback" in said) == (Code.INTERRUPTED, False), said


def test_ctrl_c_at_a_question_ends_with_130_and_a_no_with_1(program: Program) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "backend.cli", "user", "password", "ada"]
    running = subprocess.Popen(
        words, env=program.environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    said = b""

    def asked() -> bool:
        nonlocal said
        said += os.read(ours, 1000)
        return b"New" in said

    eventually(asked, "the password is asked for")
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait() == Code.INTERRUPTED, said
    os.close(ours)
    answered_no = program("placement", "apply", "nothing-there")
    assert answered_no.returncode == Code.NOT_SO


def test_every_code_has_a_meaning_and_every_status_a_code() -> None:
    assert list(MEANINGS) == list(Code)
    assert {status: code_of(status) for status in (400, 401, 403, 404, 409, 412, 422, 429, 500, 503)} == {
        400: Code.BAD_INPUT,
        401: Code.NOT_ALLOWED,
        403: Code.NOT_ALLOWED,
        404: Code.NOT_SO,
        409: Code.CONFLICT,
        412: Code.CONFLICT,
        422: Code.BAD_INPUT,
        429: Code.AWAY,
        500: Code.AWAY,
        503: Code.AWAY,
    }
