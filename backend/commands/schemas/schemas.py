"""`treeline schemas`: registries, the distribution of schemas, and the primary."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.schemas import schemas_reading, schemas_settings, schemas_writing
from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present_list

TARGET_COLUMNS = ("cluster", "primary_cluster", "state", "subjects", "behind", "reason")
MOVE_COLUMNS = ("cluster", "previous", "take_over", "operation")

schemas = typer.Typer(
    no_args_is_help=True, help="Schema registries, the distribution of schemas, and the primary cluster."
)
for commands in (schemas_reading, schemas_writing, schemas_settings):
    commands.register(schemas)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(schemas, name="schemas")


@schemas.command(cls=WatchCommand)
def targets(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List each cluster's progress behind the primary, with its conflicts."""
    present_list("/schemas/targets", TARGET_COLUMNS, Form.JSON if as_json else form, every)


@schemas.command("move-primary")
def move_primary(
    cluster: Annotated[
        str,
        typer.Argument(
            help="The new primary; naming the present one cancels a move in progress.",
            autocompletion=clusters_beginning,
        ),
    ],
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Do not wait for the present primary, because it is lost.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Move the primary: another cluster becomes the only writer of schemas, once it has all of them."""
    body = {"cluster": cluster, "take_over": take_over}
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        found = answer(client.put("/trees/main/primary", json=body, params=params))
    show(found, Form.JSON if as_json else form, MOVE_COLUMNS, [found])
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
