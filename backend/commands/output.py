"""The forms in which commands answer: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

_PIPED_COLUMNS = 10_000


class Form(StrEnum):
    """How an answer is written to stdout."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormOption = Annotated[Form, typer.Option("--output", "-o", help="How to answer.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for -o json.")]


def show(answer: Any, form: Form, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `answer` as JSON or YAML, or else `rows` as a table of `columns`."""
    if form is Form.JSON:
        typer.echo(json.dumps(answer, indent=1))
    elif form is Form.YAML:
        import yaml

        typer.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for column in columns:
            # In a narrow window a long value takes more lines; cut off it would say nothing.
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(_cell(row.get(column)) for column in columns))
        console = Console()
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console.width = _PIPED_COLUMNS  # what is searched for must not be folded
        console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    from rich.markup import escape

    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
