"""`treeline discovery`: shows where clients are sent, lists clients, and removes those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.completion import environments_beginning
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, fields_of, listed
from backend.commands.shell.rest import answer, done, fail, pages, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2

CLIENT_COLUMNS = ("client_id", "role", "zone", "generation", "phase", "arrived", "software", "silent_ms")

program = typer.Typer(no_args_is_help=True, help="Show the active cluster and the clients of environments.")

Environment = Annotated[
    str, typer.Argument(help="TENANT/INSTANCE/ENVIRONMENT", autocompletion=environments_beginning)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="discovery")


@program.command("show", cls=WatchCommand)
def show_(
    environment: Environment,
    zone: Annotated[str | None, typer.Option(help="Answer for clients of this availability zone.")] = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show where an environment's clients are sent. This request is not recorded as a client."""
    params = {**_place(environment), **({} if zone is None else {"zone": zone})}
    present(
        lambda client: fields_of(answer(client.get("/discovery", params=params))),
        Form.JSON if as_json else form,
        every,
    )


@program.command("clients", cls=WatchCommand)
def clients(
    environment: Environment,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List the clients of an environment that reported within a day, with their last report."""
    params = _place(environment)

    def look(client: httpx2.Client) -> Shown:
        items = pages(client, "/discovery/clients", params)
        return Shown(answer=listed(items), columns=CLIENT_COLUMNS, rows=items)

    present(look, Form.JSON if as_json else form, every)


@program.command("forget")
def forget(
    environment: Environment,
    client_id: Annotated[str, typer.Argument(help="Client id, as shown by `discovery clients`.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
) -> None:
    """Remove a client that ended without unregistering, so that no switch waits for it."""
    params = {**_place(environment), **({"dry_run": "true"} if dry_run else {})}
    with rest_client() as client:
        done(client.delete(f"/discovery/clients/{quote(client_id, safe='')}", params=params))
    typer.echo("This was a dry run: nothing changed." if dry_run else f"Removed client {client_id}.", err=True)


def _place(environment: str) -> dict[str, Any]:
    names = environment.split("/")
    if len(names) != 3 or not all(names):
        fail(f"Name the environment as TENANT/INSTANCE/ENVIRONMENT, not {environment}.", Code.BAD_INPUT)
    return dict(zip(("tenant", "instance", "environment"), names, strict=True))
