"""Every `treeline` command that the documentation shows is one that the program takes."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from backend.cli import app
from backend.commands.kinds import KNOWN
from tests.docs.pages import blocks, commands, pages, shown

PROGRAM: Any = typer.main.get_command(app)
KINDS = KNOWN.split(", ")
Refused = typer.BadParameter.__bases__[0]
"""What is wrong with the words of a command, whatever."""
SHELL = ("", "sh", "console", "bash")


def told(words: list[str]) -> str | None:
    """What the program would say against these words before it does anything, or None."""
    command = PROGRAM
    given = list(words)
    while getattr(command, "commands", None):
        if given and given[0] in command.commands:
            command = command.commands[given.pop(0)]
        elif getattr(command, "invoke_without_command", False):
            break
        else:
            return f"there is no command {' '.join(words)!r}"
    try:
        values, rest, _ = command.make_parser(command.context_class(command)).parse_args(given)
    except Refused as error:
        return str(error)
    if rest:
        return f"too much: {rest}"
    for parameter in command.params:
        value = values.get(parameter.name)
        if parameter.required and value is None:
            return f"{parameter.name} is missing"
        if parameter.name == "kind" and value not in KINDS:
            return f"{value} is no kind of thing"
        kind = parameter.type_descriptor.annotation
        choices = [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []
        if choices and isinstance(value, str) and value not in choices:
            return f"{parameter.name} cannot be {value!r}"
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
