"""`treeline messages` against a control plane whose clusters are down: exit codes, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.messages import reader
from tests.support.api.rest import Rest
from tests.support.api.shell import Shell, shell_of
from tests.support.api.streams import applied, worker_records
from tests.support.database.postgres import Database

STREAM = "acme/retail/prod/orders"


@pytest.fixture
def shell(both: Rest, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield commands; a topic of the stream is on c1, and no cluster is waited for."""
    worker_records(both, applied("c1"))
    monkeypatch.setattr(reader, "BOUNDS", replace(reader.BOUNDS, seconds=0.3))
    with shell_of(database.url, tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((STREAM,), 4, "c1 does not answer"),
        ((STREAM, "--cluster", "c1", "--partition", "0", "--from", "7"), 4, "c1 does not answer"),
        (("acme/retail/prod/none",), 1, "there is no stream"),
        ((STREAM, "--cluster", "c9"), 1, "there is no cluster 'c9'"),
        ((STREAM, "--from", "yesterday"), 2, "from: it must be earliest, latest"),
        ((STREAM, "--filter", "json:$.a =="), 2, "invalid at character"),
        ((STREAM, "--limit", "501"), 2, "500"),
    ],
)
def test_what_cannot_be_shown_ends_with_its_code(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    ended = shell("messages", *words)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_each_call_is_in_the_audit_that_owners_read(shell: Shell) -> None:
    shell("messages", STREAM, "--filter", "key:a", "--filter", "header:b=c")
    [item] = shell.json("audit", "--tenant", "acme", "--own", "--kind", "MessagesRead")
    assert (item["actor"], item["agent"]) == ("admin", "treeline-cli")
    assert item["reason"] == f"{STREAM} on c1, partition 0, filter key:a, filter header:b=c, from latest"
    assert shell.json("audit", "--tenant", "acme", "--kind", "MessagesRead") == [item]
    everything = shell.json("audit", "--tenant", "acme", "--own")
    assert everything[0] == item and {each["kind"] for each in everything} >= {"StreamDeclared", "MessagesRead"}
    refused = shell("audit", "--own")
    assert (refused.exit_code, "--tenant" in refused.stderr) == (2, True)
    assert shell("audit", "--own", "--tenant", "nobody").exit_code == 1
