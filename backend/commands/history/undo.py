"""`treeline undo`: undo the changes of one event."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from backend.commands.history.events import DIFFERENCE_COLUMNS, difference_rows
from backend.commands.shell.dry_run import preview
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(undo)


def undo(
    position: Annotated[int, typer.Argument(min=1, help="Position of the event.")],
    confirm: Annotated[
        str | None, typer.Option(help="Full name of the resource, required if the undo removes records or access.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences without changing anything.")
    ] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Undo what one event changed, by a new command: nothing is removed from the event log.

    Exit 1: there is no such event. Exit 2: no command can undo such an event. Exit 3: the resource was changed
    since, or a confirmation is missing.
    """
    body = {} if confirm is None else {"confirm": confirm}
    with rest_client() as client:
        found: dict[str, Any] = answer(client.post(f"/events/{position}/undo", json=body, params=preview(dry_run)))
    rows = [row for item in found["changes"] for row in difference_rows(item)]
    show(found, Form.JSON if as_json else form, DIFFERENCE_COLUMNS, rows)
    for note in found["notes"]:
        typer.echo(note, err=True)
