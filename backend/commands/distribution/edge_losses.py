"""`treeline set-aside` and `treeline losses`: what distributors could not copy."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present_list

SET_ASIDE_COLUMNS = ("id", "cluster", "level", "target", "offset", "replayed", "reason")
LOSS_COLUMNS = (
    "cluster",
    "level",
    "stream",
    "partition",
    "first_offset",
    "last_offset",
    "at_least",
    "acknowledged",
    "reason",
)

set_aside = typer.Typer(no_args_is_help=True, help="Records that a target refused, and replaying them.")
losses = typer.Typer(no_args_is_help=True, help="Records that were gone before they could be copied.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(set_aside, name="set-aside")
    app.add_typer(losses, name="losses")


@set_aside.command("list", cls=WatchCommand)
def list_set_aside(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List the records that were set aside, with the reasons."""
    present_list("/set-aside", SET_ASIDE_COLUMNS, Form.JSON if as_json else form, every)


@set_aside.command()
def replay(
    id: Annotated[str, typer.Argument(help="As `treeline set-aside list` shows it.")],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Write a record where it is missing. Exit 1: some cluster still lacks it."""
    with rest_client() as client:
        found = answer(client.post("/set-aside/replay", json={"id": id}, params=preview(dry_run)))
    show(found, Form.JSON if as_json else form, ("id", "written", "missing"), [found])
    say_if_dry(dry_run)
    if found["missing"]:
        raise typer.Exit(1)


@losses.command("list", cls=WatchCommand)
def list_losses(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List the ranges that were lost, with the reasons."""
    present_list("/losses", LOSS_COLUMNS, Form.JSON if as_json else form, every)


@losses.command()
def acknowledge(
    cluster: Annotated[
        str, typer.Argument(help="The cluster that the distributor reads.", autocompletion=clusters_beginning)
    ],
    level: Annotated[int, typer.Argument(help="Its level.", min=1)],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Take note of all that a distributor lost so far: it is no longer degraded for it."""
    with rest_client() as client:
        body = {"cluster": cluster, "level": level}
        found = answer(client.post("/losses/acknowledge", json=body, params=preview(dry_run)))
    show(found, Form.JSON if as_json else form, LOSS_COLUMNS, found["items"])
    say_if_dry(dry_run)
