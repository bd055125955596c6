"""Output formats of commands: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPED_COLUMNS = 10_000


class Form(StrEnum):
    """Output format on stdout."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormOption = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for -o json.")]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Result of a request: the answer for programs, a table for people, and messages (on stderr)."""

    answer: Any
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    told: Sequence[str] = ()
    tables: Callable[[Console], None] | None = None
    """Draws the output for people, if it is not a single table."""

    def write(self, form: Form) -> None:
        """Write messages to stderr, the rest to stdout."""
        for line in self.told:
            typer.echo(line, err=True)
        if form is Form.TABLE and self.tables is not None:
            self.tables(console())
        else:
            show(self.answer, form, self.columns, self.rows)

    def draw(self, on: Console) -> None:
        """Draw the table on a console of the caller's."""
        if self.tables is not None:
            self.tables(on)
        else:
            on.print(table(self.columns, self.rows))


def listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a whole list in the form of the REST API's lists."""
    return {"items": items, "next_cursor": None}


def fields_of(found: Mapping[str, Any]) -> Shown:
    """Return all fields of one resource, as a table with a row for each field."""
    rows = [{"field": name, "value": value} for name, value in found.items()]
    return Shown(answer=found, columns=("field", "value"), rows=rows)


def show(answer: Any, form: Form, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `answer` as JSON or YAML, or else `rows` as a table of `columns`."""
    if form is Form.JSON:
        typer.echo(json.dumps(answer, indent=1))
    elif form is Form.YAML:
        import yaml

        typer.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
    else:
        console().print(table(columns, rows))


def console() -> Console:
    """Return a console on stdout for people; with colours only in a terminal, and not if NO_COLOR is set."""
    from rich.console import Console

    made = Console()
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPED_COLUMNS  # text that users search for must not be folded
    return made


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows as a table for people."""
    from rich.table import Table

    made = Table()
    for column in columns:
        # In a narrow window a long value takes more lines; truncated it would be useless.
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(_cell(row.get(column)) for column in columns))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return ""
    from rich.markup import escape

    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
