"""Parser for command lines, which does not execute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from backend.cli import app

PROGRAM: Any = typer.main.get_command(app)
Refused = typer.BadParameter.__bases__[0]
"""Any error in the words of a command."""


def parsed(words: Sequence[str]) -> Any:
    """Return the context of the command that these words (without the program's name) select. Raises Refused.

    Answers to prompts must be in the environment.
    """
    command, arguments, context = PROGRAM, list(words), None
    while True:
        context = command.make_context(command.name, list(arguments), parent=context)
        if context.args and not hasattr(command, "commands"):
            raise typer.BadParameter(f"too much: {context.args}")
        if not context._protected_args:
            return context
        _, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
