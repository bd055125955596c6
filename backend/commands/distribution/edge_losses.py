"""`treeline set-aside` and `treeline losses`: records that distributors could not copy."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present_list

DEAD_LETTER_COLUMNS = ("id", "cluster", "level", "target", "offset", "replayed", "reason")
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

dead_letters = typer.Typer(no_args_is_help=True, help="Dead letters: records that a target refused.")
losses = typer.Typer(no_args_is_help=True, help="Records that were gone before they could be copied.")


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(dead_letters, name="set-aside")
    app.add_typer(losses, name="losses")


@dead_letters.command("list", cls=WatchCommand)
def list_dead_letters(
    every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """List the dead-lettered records with the reasons."""
    present_list("/set-aside", DEAD_LETTER_COLUMNS, Form.JSON if as_json else form, every)


@dead_letters.command()
def replay(
    id: Annotated[str, typer.Argument(help="Id of the record, as in `treeline set-aside list`.")],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Replay a dead-lettered record where it is missing. Exit 1: some cluster still lacks it."""
    with rest_client() as client:
        found = answer(client.post("/set-aside/replay", json={"id": id}, params=preview(dry_run)))
    show(found, Form.JSON if as_json else form, ("id", "written", "missing"), [found])
    say_if_dry(dry_run)
    if found["missing"]:
        raise typer.Exit(1)


@losses.command("list", cls=WatchCommand)
def list_losses(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List the lost ranges of records with the reasons."""
    present_list("/losses", LOSS_COLUMNS, Form.JSON if as_json else form, every)


@losses.command()
def acknowledge(
    cluster: Annotated[
        str, typer.Argument(help="Source cluster of the distributor.", autocompletion=clusters_beginning)
    ],
    level: Annotated[int, typer.Argument(help="Level of the distributor.", min=1)],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge all losses of a distributor so far: they no longer make it degraded."""
    with rest_client() as client:
        body = {"cluster": cluster, "level": level}
        found = answer(client.post("/losses/acknowledge", json=body, params=preview(dry_run)))
    show(found, Form.JSON if as_json else form, LOSS_COLUMNS, found["items"])
    say_if_dry(dry_run)
