"""`treeline webhook`: tests, deliveries and secrets of webhooks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("position", "kind", "state", "attempts", "status", "problem", "tried_at", "next_attempt_at")
_LOOK_SECONDS = 0.5

program = typer.Typer(no_args_is_help=True, help="Tests, deliveries and secrets of webhooks.")

Name = Annotated[str, typer.Argument(help="The webhook's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="webhook")


@program.command()
def test(
    name: Name,
    wait: Annotated[
        bool, typer.Option(help="Wait for the first attempt; exits with 1 if the receiver did not accept it.")
    ] = True,
    timeout: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds to wait at most; exits with 1 after them.")
    ] = 30.0,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Send an event of kind `test`, and report whether the receiver accepted it."""
    with rest_client() as client:
        position = answer(client.post(f"{_path(name)}/test"))["position"]
        deadline = time.monotonic() + timeout
        found = _delivery(client, name, position)
        while wait and _is_under_way(found) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            found = _delivery(client, name, position)
    if found is not None:
        show(found, Form.JSON if as_json else form, COLUMNS, [found])
    if wait and _is_under_way(found):
        fail(
            f"Event {position} was not sent within {timeout:g} s. Does the control worker run, which sends it? "
            f"`treeline webhook deliveries {name}` shows the result later."
        )
    if found is None:
        typer.echo(f"Test requested: event {position}.", err=True)
    elif wait and found["state"] != "delivered":
        raise typer.Exit(Code.NOT_SO)


@program.command(cls=WatchCommand)
def deliveries(
    name: Name,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, help="Maximum number of deliveries, the newest first.")
    ] = 50,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List deliveries and their results."""

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get(_deliveries(name), params={"limit": limit}))
        return Shown(answer=found, columns=COLUMNS, rows=found["items"])

    present(look, Form.JSON if as_json else form, every)


@program.command()
def retry(
    name: Name,
    position: Annotated[int, typer.Argument(min=1, help="Position of the event, as listed by `deliveries`.")],
) -> None:
    """Send an event again, at once, whatever the result before."""
    with rest_client() as client:
        answer(client.post(f"{_path(name)}/deliveries/{position}/retry"))
    typer.echo(f"Event {position} will be sent to {name} again.", err=True)


@program.command()
def rotate(
    name: Name, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """Sign with a new secret from the next attempt on, and print it, this once."""
    with rest_client() as client:
        rotated = answer(client.post(f"{_path(name)}/secret", params=preview(dry_run)))
    form = Form.JSON if as_json else form
    if dry_run:
        say_if_dry(dry_run)
    elif form is Form.TABLE:
        typer.echo(rotated["secret"])
        typer.echo("This is the secret; it is not shown again.", err=True)
    else:
        show(rotated, form, (), [])


def _is_under_way(found: dict[str, Any] | None) -> bool:
    """Tell whether the result of its first attempt is still unknown."""
    return found is None or found["attempts"] == 0 or (found["state"] == "pending" and found["problem"] is None)


def _delivery(client: httpx2.Client, name: str, position: int) -> dict[str, Any] | None:
    """Return the delivery of one event, however many are newer; None before it is queued."""
    items = answer(client.get(_deliveries(name), params={"position": position}))["items"]
    return items[0] if items else None


def _path(name: str) -> str:
    return f"/webhooks/{quote(name, safe='')}"


def _deliveries(name: str) -> str:
    return f"{_path(name)}/deliveries"
