"""Every `treeline` command in the documentation is accepted by the program."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from backend.commands.shell.kinds import KNOWN
from tests.project.docs.pages import blocks, commands, pages, shown
from tests.support.api.commands_parsed import Refused, parsed

KINDS = KNOWN.split(", ")
SHELL = ("", "sh", "console", "bash")


@pytest.fixture(autouse=True)
def asked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREELINE_NEW_PASSWORD", "not asked for")


def told(words: list[str]) -> str | None:
    """Return the program's error for these words before it does anything, or None."""
    ends = [number for number, word in enumerate(words) if word in ("<", ">")]
    try:
        context = parsed(words[: ends[0]] if ends else words)
    except Refused as error:
        return str(error)
    except typer.Exit:
        return None if words == ["--version"] else "nothing is done: its help is shown"
    if words[0] in ("get", "describe", "delete") and context.params.get("kind") not in KINDS:
        return f"{context.params.get('kind')} is no kind of thing"
    return None


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_command_is_one(page: Path) -> None:
    wrong = []
    for block in blocks(page):
        if block.language in SHELL:
            wrong += [f"treeline {' '.join(words)}: {said}" for words in commands(block) if (said := told(words))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line", ["nothing", "get", "get streams --nope", "drill broker", "placement policy c1 --set what", "get moons"]
)
def test_what_is_none_is_found(line: str) -> None:
    assert told(line.split()) is not None
