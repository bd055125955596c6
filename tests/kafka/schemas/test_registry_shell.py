"""`treeline schemas`: what registries have, read and written by commands against an estate that runs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from backend.cli import app
from backend.settings import settings
from tests.eventually import eventually
from tests.support.api.shell import Shell
from tests.support.estate.running import RunningEstate
from tests.support.schemas.addresses import Address
from tests.support.schemas.written_log import avro, referring

OTHER = "cluster-3"


@pytest.fixture
def shell(estate: RunningEstate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Commands that find the estate's control plane in the environment."""
    monkeypatch.delenv("COLUMNS", raising=False)  # said by pytest's side-by-side processes
    monkeypatch.setenv("TREELINE_URL", estate.url)
    monkeypatch.setenv("TREELINE_TOKEN", estate.token)
    settings.cache_clear()
    yield Shell(tmp_path)
    settings.cache_clear()


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses, with signs that have to be quoted."""
    return f"shell/é-{secrets.token_hex(4)}"


@pytest.fixture
def name(subject: str) -> str:
    """A record's name that makes a schema this test's own, so that its id is, too."""
    return f"R{subject.rpartition('-')[2]}"


@pytest.fixture
def order(tmp_path: Path) -> Path:
    return tmp_path / "order.avsc"


def registered(shell: Shell, subject: str, file: Path, text: str, *words: str) -> int:
    file.write_text(text)
    found: int = shell.json("schemas", "register", subject, "-f", str(file), *words)["id"]
    return found


def items(shell: Shell, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.json("schemas", *words)["items"]
    return found


def refused(ended: Result, code: int, *says: str) -> None:
    assert ended.exit_code == code, ended.stderr
    assert ended.stdout == "", "what went wrong is no data"
    for each in says:
        assert each in ended.stderr, ended.stderr


def test_a_schema_of_a_file_is_tried_registered_and_found_by_all_ways(
    shell: Shell, primary: Address, subject: str, name: str, order: Path
) -> None:
    first, second = avro("a", name=name), avro("a", "b?", name=name)
    order.write_text(first)
    words = ("schemas", "register", subject, "-f", str(order))
    tried = shell(*words, "--dry-run")
    assert (tried.exit_code, tried.stdout) == (0, ""), tried.stderr
    assert "nothing changed" in tried.stderr
    assert items(shell, "subjects", "--prefix", subject) == []
    schema_id = registered(shell, subject, order, first)
    assert registered(shell, subject, order, first) == schema_id, "it is there already"
    tried = shell(*words, "--dry-run", "-o", "json")
    assert (json.loads(tried.stdout), "has this schema already" in tried.stderr) == ({"id": schema_id}, True)
    second_id = registered(shell, subject, order, second)
    assert items(shell, "subjects", "--prefix", subject) == [{"subject": subject, "deleted": False}]
    assert [row["version"] for row in items(shell, "versions", subject)] == [1, 2]
    assert [(row["version"], row["id"]) for row in items(shell, "list", "--prefix", subject)] == [
        (1, schema_id),
        (2, second_id),
    ]
    assert [row["id"] for row in items(shell, "list", "--prefix", subject, "--latest")] == [second_id]
    latest = {"subject": subject, "version": 2, "id": second_id, "schemaType": "AVRO", "schema": second}
    assert shell.json("schemas", "show", subject) == latest
    assert yaml.safe_load(shell("schemas", "show", subject, "-o", "yaml").stdout) == latest
    assert shell.json("schemas", "show", subject, "1")["schema"] == first
    assert shell("schemas", "show", subject, "1", "--text").stdout == f"{first}\n"
    of_id = shell.json("schemas", "show-id", str(schema_id))
    assert (of_id["schema"], of_id["versions"]) == (first, [{"subject": subject, "version": 1}])
    assert shell("schemas", "show-id", str(schema_id), "--text").stdout == f"{first}\n"
    found = shell.json("schemas", "find", subject, "-f", str(order))
    assert (found["version"], found["id"]) == (2, second_id)
    assert primary.get(f"/schemas/ids/{schema_id}") == {"schema": first}
    assert subject in shell("schemas", "subjects").stdout
    order.write_text(avro("c", name=name))
    refused(shell("schemas", "find", subject, "-f", str(order)), 1, "40403")


def test_what_does_not_fit_is_told_before_and_by_the_level_that_is_set(
    shell: Shell, subject: str, name: str, order: Path
) -> None:
    registered(shell, subject, order, avro("a", name=name))
    order.write_text(avro("a", "b", name=name))
    words = (subject, "-f", str(order))
    for more in ((), ("--version", "1"), ("--version", "latest")):
        told = shell("schemas", "check", *words, *more, "-o", "json")
        said = json.loads(told.stdout)
        assert (told.exit_code, said["is_compatible"]) == (1, False), told.stderr
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in said["messages"][0]
    for more in ((), ("--dry-run",)):
        refused(shell("schemas", "register", *words, *more), 3, "is incompatible", "treeline schemas level")
    usual = {"subject": subject, "compatibilityLevel": "BACKWARD", "normalize": False, "own": False}
    assert shell.json("schemas", "level", subject) == usual
    tried = shell.json("schemas", "level", subject, "--set", "none", "--normalize", "--dry-run")
    wanted = {**usual, "compatibilityLevel": "NONE", "normalize": True, "own": True}
    assert (tried, shell.json("schemas", "level", subject)) == (wanted, usual)
    assert shell.json("schemas", "level", subject, "--set", "none", "--normalize") == wanted
    assert shell.json("schemas", "level", subject) == wanted
    assert shell.json("schemas", "level", subject, "--no-normalize")["compatibilityLevel"] == "NONE"
    assert shell.json("schemas", "check", *words) == {"is_compatible": True, "messages": []}
    assert shell("schemas", "register", *words).exit_code == 0
    assert shell.json("schemas", "level", subject, "--clear", "--dry-run")["compatibilityLevel"] == "NONE"
    assert shell.json("schemas", "level", subject)["own"]
    assert shell.json("schemas", "level", subject, "--clear")["compatibilityLevel"] == "NONE"
    assert shell.json("schemas", "level", subject) == usual
    refused(shell("schemas", "level", subject, "--clear"), 1, "no setting of its own")
    assert shell.json("schemas", "level", "--set", "full", "--dry-run")["compatibilityLevel"] == "FULL"
    assert shell.json("schemas", "level") == {**usual, "subject": None, "own": True}


def test_deleting_is_soft_first_and_for_good_only_for_who_types_the_name(
    shell: Shell, subject: str, name: str, order: Path
) -> None:
    for fields in (("a",), ("a", "b?"), ("a", "b?", "c?")):
        registered(shell, subject, order, avro(*fields, name=name))
    for dry in ((), ("--dry-run",)):
        refused(shell("schemas", "delete", subject, "2", "--permanent", "--yes", *dry), 1, "40407", "without")
    assert shell.json("schemas", "delete", subject, "2", "--dry-run")["items"] == [{"version": 2}]
    assert len(items(shell, "versions", subject)) == 3
    assert shell.json("schemas", "delete", subject, "2")["items"] == [{"version": 2}]
    assert [row["version"] for row in items(shell, "versions", subject)] == [1, 3]
    marked = items(shell, "versions", subject, "--deleted")
    assert [row["deleted"] for row in marked] == [False, True, False]
    refused(shell("schemas", "show", subject, "2"), 1, "40402", "treeline schemas versions")
    assert shell.json("schemas", "show", subject, "2", "--deleted")["deleted"]
    refused(shell("schemas", "delete", subject, "2"), 1, "40406", "--permanent")
    assert "soft-deleted" in shell("schemas", "delete", subject).stderr
    assert items(shell, "subjects", "--prefix", subject) == []
    assert items(shell, "subjects", "--prefix", subject, "--deleted") == [{"subject": subject, "deleted": True}]
    for_good = ["schemas", "delete", subject, "--permanent"]
    other_name = CliRunner().invoke(app, for_good, input="shell\n")
    assert (other_name.exit_code, "Nothing was deleted" in other_name.stderr) == (1, True), other_name.stderr
    assert shell(*for_good, "--dry-run").exit_code == 0, "a dry run does not ask"
    assert len(items(shell, "subjects", "--prefix", subject, "--deleted")) == 1
    typed = CliRunner().invoke(app, for_good, input=f"{subject}\n")
    assert (typed.exit_code, "permanently deleted" in typed.stderr) == (0, True), typed.stderr
    assert items(shell, "subjects", "--prefix", subject, "--deleted") == []
    refused(shell("schemas", "versions", subject), 1, "40401", "treeline schemas subjects")


def test_what_refers_to_a_version_is_listed_and_keeps_it(
    shell: Shell, subject: str, name: str, order: Path, tmp_path: Path
) -> None:
    inner, outer = f"{subject}-inner", f"{subject}-outer"
    registered(shell, inner, order, avro("a", name=name))
    refers = ("--reference", f"{name}={inner}:latest")
    outer_id = registered(shell, outer, order, referring(f"{name}Outer", name), *refers)
    assert [row["id"] for row in items(shell, "referring", inner, "1")] == [outer_id]
    shown = shell.json("schemas", "show", outer)
    assert shown["references"] == [{"name": name, "subject": inner, "version": 1}]
    refused(shell("schemas", "delete", inner), 2, "42206", "treeline schemas referring")
    assert shell("schemas", "delete", outer).exit_code == 0
    assert items(shell, "referring", inner) == []
    assert [row["id"] for row in items(shell, "referring", inner, "--deleted")] == [outer_id]


def test_other_languages_are_known_by_the_files_name_or_told(
    shell: Shell, subject: str, name: str, tmp_path: Path
) -> None:
    proto = tmp_path / "order.proto"
    text = f'syntax = "proto3";\nmessage {name} {{ string id = 1; }}\n'
    registered(shell, f"{subject}-proto", proto, text)
    shown = shell.json("schemas", "show", f"{subject}-proto")
    assert shown["schemaType"] == "PROTOBUF"
    assert shell.json("schemas", "show", f"{subject}-proto", "--serialized")["schema"] != shown["schema"]
    words = ["schemas", "register", f"{subject}-json", "-f", "-"]
    sent = CliRunner().invoke(app, [*words, "--type", "json", "--json"], input=f'{{"title": "{name}"}}')
    assert sent.exit_code == 0, sent.stderr
    schema_id = str(json.loads(sent.stdout)["id"])
    assert shell.json("schemas", "show-id", schema_id)["schemaType"] == "JSON"
    refused(CliRunner().invoke(app, words, input="{}"), 2, "--type", "AVRO, JSON, PROTOBUF")


def test_a_mode_is_shown_set_and_taken_back(shell: Shell, subject: str, name: str, order: Path) -> None:
    registered(shell, subject, order, avro("a", name=name))
    usual = {"subject": subject, "mode": "READWRITE", "own": False}
    assert shell.json("schemas", "mode", subject) == usual
    assert shell.json("schemas", "mode", subject, "--set", "readonly", "--dry-run")["mode"] == "READONLY"
    assert shell.json("schemas", "mode", subject) == usual
    assert shell.json("schemas", "mode", subject, "--set", "readonly") == {
        **usual,
        "mode": "READONLY",
        "own": True,
    }
    order.write_text(avro("a", "b?", name=name))
    refused(shell("schemas", "register", subject, "-f", str(order)), 2, "42205", "treeline schemas mode")
    refused(shell("schemas", "mode", subject, "--set", "import"), 2, "42205")
    assert shell.json("schemas", "mode", subject, "--set", "import", "--force")["mode"] == "IMPORT"
    schema_id = max(row["id"] for row in items(shell, "list", "--deleted")) + 1000
    given = ("--id", str(schema_id), "--version", "7")
    assert registered(shell, subject, order, avro("z", name=name), *given) == schema_id
    assert shell.json("schemas", "show", subject, "7")["id"] == schema_id
    assert shell.json("schemas", "mode", subject, "--clear")["mode"] == "IMPORT"
    assert shell.json("schemas", "mode", subject) == usual
    assert shell.json("schemas", "mode") == {"subject": None, "mode": "READWRITE", "own": True}


def test_without_a_cluster_the_primary_is_asked_and_no_other_takes_a_write(
    shell: Shell, subject: str, name: str, order: Path
) -> None:
    schema_id = registered(shell, subject, order, avro("a", name=name))
    there = ("--cluster", OTHER)

    def arrived() -> bool:
        return bool(items(shell, "subjects", "--prefix", subject, *there))

    eventually(arrived, f"{OTHER} has it, too")
    assert shell.json("schemas", "show", subject, *there)["id"] == schema_id
    order.write_text(avro("a", "b?", name=name))
    for dry in ((), ("--dry-run",)):
        for words in (
            ("register", subject, "-f", str(order)),
            ("delete", subject),
            ("level", subject, "--set", "full"),
            ("mode", subject, "--set", "readonly"),
        ):
            refused(shell("schemas", *words, *there, *dry), 3, "not the primary", "give --cluster cluster-1")
    assert shell.json("schemas", "check", subject, "-f", str(order), *there)["is_compatible"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("versions", "no-such"), 1, "Subject 'no-such' not found. `treeline schemas subjects`"),
        (("show", "no-such", "0"), 2, "'0' is not a version"),
        (("delete", "no-such", ".."), 2, "'..' is not a version"),
        (("check", "no-such", "-f", "x.avsc", "--version", "first"), 2, "'first' is not a version"),
        (("show", ".."), 1, "Subject '..' not found"),
        (("delete", "no-such", "--dry-run"), 1, "Subject 'no-such' not found"),
        (("show-id", "2000000000"), 1, "treeline schemas list"),
        (("subjects", "--cluster", "c9"), 1, "treeline get clusters"),
        (
            ("level", "no-such", "--set", "SOME"),
            2,
            "'SOME' is not a valid compatibility level. Valid values are BACKWARD",
        ),
        (("mode", "no-such", "--set", "SOME"), 2, "'SOME' is not a valid mode. Valid values are READWRITE"),
        (("level", "no-such", "--set", "FULL", "--clear"), 2, "give either"),
        (("level", "--dry-run"), 2, "--set or --clear"),
        (("show", "no-such", "--text", "-o", "json"), 2, "--text"),
        (("register", "x", "-f", "nowhere.avsc"), 2, "nowhere.avsc cannot be read"),
        (("register", "x", "-f", "order.json"), 2, "order.json: the type of the schema is unknown"),
        (("register", "x", "-f", "/dev/null", "--type", "avro"), 2, "/dev/null is empty"),
        (("register", "x", "-f", "README.md", "--type", "avro", "--reference", "a:1"), 2, "NAME=SUBJECT:VERSION"),
        (("register", "x", "-f", "README.md", "--type", "avro"), 2, "Invalid schema"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(shell: Shell, words: tuple[str, ...], code: int, says: str) -> None:
    refused(shell("schemas", *words), code, says)


def test_a_list_is_shown_again_when_it_changes(
    estate: RunningEstate, shell: Shell, subject: str, name: str, order: Path
) -> None:
    registered(shell, subject, order, avro("a", name=name))
    words = [sys.executable, "-m", "backend.cli", "schemas", "versions", subject, "-w", "0.1", "-o", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert [row["version"] for row in json.loads(running.stdout.readline())["items"]] == [1]
            registered(shell, subject, order, avro("a", "b?", name=name))
            assert [row["version"] for row in json.loads(running.stdout.readline())["items"]] == [1, 2]
        finally:
            running.kill()


@pytest.mark.nightly  # test_cli_completion
def test_subjects_levels_and_modes_are_completed(shell: Shell, subject: str, name: str, order: Path) -> None:
    registered(shell, subject, order, avro("a", name=name))
    gone = f"{subject}-gone"
    registered(shell, gone, order, avro("a", name=name))
    assert shell("schemas", "delete", gone).exit_code == 0

    def completed(words: str, **variables: str) -> list[str]:
        asked = {
            "_TREELINE_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": f"treeline schemas {words}",
        }
        # As a shell starts it: by its own name.
        program = [str(Path(sys.executable).parent / "treeline")]
        ended = subprocess.run(
            program, env={**os.environ, **asked, **variables}, capture_output=True, text=True, check=True
        )
        assert ended.stderr == ""
        return ended.stdout.split()

    assert completed(f"show {subject}") == [subject]
    assert completed(f"delete --permanent {subject}") == [subject, gone]
    assert completed(f"show --cluster c9 {subject}") == []
    assert completed(f"show {subject}", TREELINE_URL="http://127.0.0.1:9") == []
    assert completed("level --set ful") == ["full", "full_transitive"]
    assert completed("mode --set I") == ["IMPORT"]
    assert completed("subjects --cluster cluster-1") == ["cluster-1"]
