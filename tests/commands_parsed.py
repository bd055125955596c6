"""Words of a command as the program parses them, without doing what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from backend.cli import app

PROGRAM: Any = typer.main.get_command(app)
Refused = typer.BadParameter.__bases__[0]
"""What is wrong with the words of a command, whatever."""


def parsed(words: Sequence[str]) -> Any:
    """The context of the command that these words (without the program's name) are of. Raises Refused.

    What is asked for by a prompt is to be in the environment.
    """
    command, arguments, context = PROGRAM, list(words), None
    while True:
        context = command.make_context(command.name, list(arguments), parent=context)
        if context.args and not hasattr(command, "commands"):
            raise typer.BadParameter(f"too much: {context.args}")
        if not context._protected_args:
            return context
        _, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
