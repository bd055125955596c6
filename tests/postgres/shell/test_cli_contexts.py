"""`treeline context`: control planes by name, in a file of the user's, against a real control plane."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.nightly import some_now
from tests.support.api.program import Program, program_of
from tests.support.api.rest import TOKEN
from tests.support.database.postgres import Database

NONE = {"TREELINE_URL": "", "TREELINE_TOKEN": "", "TREELINE_HOME": ""}
"""Variables that would take precedence over the current context."""


@pytest.fixture
def program(database: Database, tmp_path: Path) -> Iterator[Program]:
    with program_of(database.url, tmp_path) as found:
        yield found


def write(program: Program, text: str, mode: int = 0o600) -> None:
    program.contexts.parent.mkdir(parents=True, exist_ok=True)
    program.contexts.write_text(text)
    program.contexts.chmod(mode)


def test_a_context_is_made_used_shown_and_forgotten(program: Program) -> None:
    made = program("context", "set", "prod", "--url", program.url, "--token", "${env:OF_PROD}", "--use")
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE(program.contexts.stat().st_mode) == 0o600
    listed = json.loads(program("context", "list", "-o", "json").stdout)["items"]
    assert listed == [
        {"name": "local", "url": None, "token": None, "in_use": False},
        {"name": "prod", "url": program.url, "token": "${env:OF_PROD}", "in_use": True},
    ]
    asked = program("get", "tenants", "-o", "json", **NONE, OF_PROD=TOKEN)
    assert (asked.returncode, json.loads(asked.stdout)["items"]) == (0, []), asked.stderr
    unset = program("get", "tenants", **NONE)
    assert (unset.returncode, "OF_PROD is not set" in unset.stderr) == (2, True)
    assert program("context", "delete", "prod").returncode == 0
    assert "No estate runs" in program("get", "tenants", **NONE).stderr
    gone = program("context", "use", "prod")
    assert (gone.returncode, "no context 'prod'; there are: local" in gone.stderr) == (2, True)


def keep(program: Program, *names: str) -> None:
    """Save contexts of these names, all of the program's control plane."""
    (program.folder / "token").write_text(f"{TOKEN}\n")
    reference = f"${{file:{program.folder / 'token'}}}"
    for name in names:
        assert program("context", "set", name, "--url", program.url, "--token", reference).returncode == 0


def meant(program: Program, *words: str, **changed: str) -> tuple[str | None, str]:
    found = json.loads(program(*words, "context", "show", "-o", "json", **changed).stdout)
    return found["name"], found["because"]


def test_the_order_is_flag_context_address_home_in_use_local(program: Program) -> None:
    keep(program, "used", "named", "flagged")
    home = {"TREELINE_URL": "", "TREELINE_TOKEN": ""}
    assert program("context", "show", **NONE).returncode == 2, "nothing is meant"
    assert program("context", "use", "used", **NONE).returncode == 0
    assert meant(program, **NONE) == ("used", "in use")
    at_home = program("whoami", **home)
    assert (at_home.returncode, f"No estate runs in {program.folder / 'home'}" in at_home.stderr) == (2, True)
    assert meant(program) == (None, "TREELINE_URL")
    assert meant(program, TREELINE_CONTEXT="named") == ("named", "TREELINE_CONTEXT")
    assert meant(program, "--context", "flagged", TREELINE_CONTEXT="named") == ("flagged", "--context")
    for name, changed, says in (
        ("flagged", {}, "TREELINE_URL"),
        ("local", {}, "TREELINE_URL"),
        ("flagged", home, "TREELINE_HOME"),
    ):
        assert f"But {says} takes precedence in this shell" in program("context", "use", name, **changed).stderr
    assert "precedence" not in program("context", "use", "local", **home).stderr
    for words in (
        ("--context", "flagged", "whoami"),
        ("whoami", "--context", "flagged"),
        ("whoami", "--context=used"),
    ):
        assert program(*words, **NONE).returncode == 0, words
    local = program("--context", "local", "whoami")
    assert (local.returncode, "No estate runs" in local.stderr) == (2, True)


def test_variables_that_are_empty_are_not_set_and_one_of_two_says_what_is_missing(program: Program) -> None:
    keep(program, "used")
    assert program("context", "use", "used", **NONE).returncode == 0
    empty = dict.fromkeys(("TREELINE_CONTEXT", "TREELINE_URL", "TREELINE_TOKEN", "TREELINE_HOME"), "")
    assert json.loads(program.with_empty("context", "show", "-o", "json", **empty).stdout)["because"] == "in use"
    no_home = program.with_empty("--context", "local", "whoami", **empty)
    assert "No estate runs in .treeline." in no_home.stderr
    assert meant(program, TREELINE_CONTEXT="") == (None, "TREELINE_URL")
    for missing, there in (("TREELINE_URL", "TREELINE_TOKEN"), ("TREELINE_TOKEN", "TREELINE_URL")):
        ended = program("whoami", **{missing: ""})
        assert (ended.returncode, ended.stdout) == (2, "")
        assert f"{there} is set but {missing} is not" in ended.stderr


def test_what_changes_something_through_a_context_says_where_it_goes(program: Program) -> None:
    keep(program, "prod")
    file = program.folder / "declared.yaml"
    file.write_text("tenants: {acme: {}, globex: {}}")
    said = f"This goes to {program.url} (context prod, --context).\n"
    applied = program("--context", "prod", "apply", "-f", str(file))
    assert (applied.returncode, applied.stderr.count(said)) == (0, 1), applied.stderr
    for words in (("get", "tenants"), ("apply", "-f", str(file), "--dry-run"), ("diff", "-f", str(file))):
        looked = program("--context", "prod", *words)
        assert (looked.returncode, "This goes to" in looked.stderr) == (0, False), looked.stderr
    assert "This goes to" not in program("apply", "-f", str(file)).stderr, "said by the environment"


def test_a_token_that_is_kept_is_never_printed(program: Program) -> None:
    kept = program("context", "set", "prod", "--url", program.url, "--token", "-", "--use", given=f"{TOKEN}\n")
    assert kept.returncode == 0, kept.stderr
    assert yaml.safe_load(program.contexts.read_text())["contexts"]["prod"]["token"] == TOKEN
    everything = [kept]
    for words in (("list",), ("list", "-o", "yaml"), ("show", "prod"), ("show", "-o", "json")):
        everything.append(program("context", *words, **NONE))
    everything.append(program("whoami", **NONE))
    everything.append(program("config", "check", **NONE))
    changed = program("context", "set", "prod", "--url", "http://127.0.0.1:9")
    away = program("whoami", **NONE)
    assert (changed.returncode, away.returncode, "context prod, in use" in away.stderr) == (0, 4, True)
    for ended in (*everything, changed, away):
        assert TOKEN not in ended.stdout + ended.stderr
    literal = program("context", "set", "other", "--url", program.url, "--token", "a-secret")
    assert (literal.returncode, "a-secret" in literal.stderr, "history" in literal.stderr) == (2, False, True)


def test_a_token_goes_over_plain_http_to_no_other_machine_unless_that_is_said(program: Program) -> None:
    words = ("context", "set", "prod", "--token", "${env:T}", "--use", "--url")
    for url in ("http://192.0.2.1:9", "HTTP://treeline.example", "http://localhost.example"):
        refused = program(*words, url)
        assert (refused.returncode, "--insecure-http" in refused.stderr) == (2, True), refused.stderr
    assert not program.contexts.exists()
    for url in ("http://localhost:9", "http://[::1]:9", "http://127.8.0.1:9", "https://treeline.example"):
        assert program(*words, url).returncode == 0
    assert program(*words, "http://192.0.2.1:9", "--insecure-http").returncode == 0
    assert yaml.safe_load(program.contexts.read_text())["contexts"]["prod"]["insecure_http"] is True
    assert program("context", "set", "prod", "--token", "${env:U}").returncode == 0, "it was said for this address"
    assert program("context", "set", "prod", "--url", "http://192.0.2.2:9").returncode == 2, "not for this one"
    write(program, "contexts: {prod: {url: 'http://192.0.2.1:9', token: a-secret}}\ncurrent: prod")
    used = program("whoami", **NONE)
    assert (used.returncode, "context prod: http://192.0.2.1:9 uses http" in used.stderr) == (2, True), used.stderr
    assert "a-secret" not in used.stderr


@some_now(
    "text, says",
    [
        ("contexts: {a: [", "line 2, column 1"),
        ("contexts:\n  a: {url: 'http://h', token: t}\n  a: {url: 'http://h', token: t}", "line 3"),
        ("- a", "expected `current` and `contexts` here"),
        ("contests: {}", "unknown key 'contests'"),
        ("contexts: {a: {url: 'http://h'}}", "contexts.a: expected url and token"),
        ("contexts: {a: {url: 'h:80', token: t}}", "contexts.a: 'h:80' is not a URL of a control plane"),
        ("contexts: {a: {url: 'http://u:p@h', token: t}}", "contexts.a: the URL contains a user"),
        ("contexts: {'a b': {url: 'http://h', token: t}}", "cannot be a context's name"),
        ("contexts: {local: {url: 'http://h', token: t}}", "is the local estate"),
        ("contexts: {a: {url: 'http://h', token: '${what:X}'}}", "contexts.a: the token is not a reference"),
        ("current: b\ncontexts: {a: {url: 'http://h', token: t}}", "current: there is no context 'b'"),
    ],
    now=(0, 3, 5),
)
def test_a_damaged_file_says_what_is_wrong_and_where(program: Program, text: str, says: str) -> None:
    write(program, text)
    for words in (("whoami",), ("context", "use", "a")):
        ended = program(*words, **NONE)
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert str(program.contexts) in ended.stderr and says in ended.stderr, ended.stderr
    assert program.contexts.read_text() == text, "it is left as it is"
    assert program("whoami").returncode == 0, "what does not need it goes on"


def test_a_file_that_others_may_read_is_refused(program: Program) -> None:
    write(program, f"contexts: {{a: {{url: '{program.url}', token: t}}}}", 0o644)
    ended = program("context", "list")
    assert (ended.returncode, "chmod 600" in ended.stderr) == (2, True)


def test_shells_that_write_at_once_lose_nothing(program: Program) -> None:
    names = [f"c{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        words = (("context", "set", name, "--url", program.url, "--token", "${env:T}") for name in names)
        assert [ended.returncode for ended in pool.map(lambda each: program(*each), words)] == [0] * 4
    assert sorted(yaml.safe_load(program.contexts.read_text())["contexts"]) == names


def test_config_check_names_what_is_wrong_and_what_no_setting_has(program: Program) -> None:
    good = program("config", "check")
    assert (good.returncode, "Settings and contexts are valid" in good.stderr) == (0, True), good.stdout
    (program.folder / "treeline.toml").write_text('shift_secnods = 3\nlease_ttl_seconds = "long"\n')
    write(program, f"contexts: {{a: {{url: '{program.url}', token: '${{env:NOT_THERE}}'}}}}")
    bad = program("config", "check", "-o", "json", TREELINE_OFFSETS_PARTITIONS="0", TREELINE_TOKENS="x")
    assert bad.returncode == 2
    problems = {(each["where"], each["name"]): each["problem"] for each in json.loads(bad.stdout)["problems"]}
    assert problems.keys() == {
        ("environment", "TREELINE_TOKENS"),
        ("environment", "TREELINE_OFFSETS_PARTITIONS"),
        ("treeline.toml", "shift_secnods"),
        ("treeline.toml", "lease_ttl_seconds"),
        (str(program.contexts), "a"),
    }
    assert "did you mean TREELINE_TOKEN?" in problems["environment", "TREELINE_TOKENS"]
    assert "did you mean shift_seconds?" in problems["treeline.toml", "shift_secnods"]
