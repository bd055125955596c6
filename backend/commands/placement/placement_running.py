"""`treeline placement apply`, `watch`, `pause`, `resume`, `cancel`, `rollback`: moving replicas as a plan says.

Exit codes: those of `exit_codes`; 0 it is done (applied, rolled back, cancelled; without --watch: begun), 1 not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.placement.placement_limits import named_limits, say_limits
from backend.commands.placement.placement_of_clusters import read_placement, tell
from backend.commands.placement.placement_progress import progress_of, say_what_others_did
from backend.commands.shell.completion import placements_beginning
from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

if TYPE_CHECKING:
    import httpx2

_LOOK_SECONDS = 0.5
_GOING_ON = ("applying", "cancelling", "rolling-back")
_COLUMNS = ("id", "cluster", "state", "partitions", "arrived", "elected")

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Of a placement; `plan --cluster` tells it.", autocompletion=placements_beginning
    ),
]
Rate = Annotated[
    str | None, typer.Option(help='Bytes a second that a broker sends, and gets; "none", as at first: no limit.')
]
PerBroker = Annotated[
    int | None, typer.Option(min=1, help="Moves that a broker takes part in at once; at first 5.")
]
AtOnce = Annotated[int | None, typer.Option(min=1, help="Partitions that are moved at once; at first 1000.")]
Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Follow it to its end.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `treeline placement`."""
    for command in (apply, watch, pause, resume, cancel, rollback):
        app.command()(command)


def apply(
    placement: Id,
    digest: Annotated[str | None, typer.Option(help="Of the plan that was looked at.")] = None,
    bytes_per_second: Rate = None,
    moves_per_broker: PerBroker = None,
    partitions_at_once: AtOnce = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the plan has been looked at.")] = False,
    follow: Watch = True,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Move replicas as planned: shows the plan, asks for the cluster's name, follows it. Of one that is being
    applied: change how fast. Of the limits what is not named stays."""
    limits = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    with rest_client() as client:
        if digest is None:
            digest = _agreed(read_placement(client, placement), yes=yes)
        row = answer(client.post(_path(placement, "apply"), json={**limits, "digest": digest}))
        _go_on(client, row, Form.JSON if as_json else form, follow=follow)


def watch(placement: Id, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Follow a placement to its end: progress on stderr, what came of it on stdout."""
    with rest_client() as client:
        _go_on(client, read_placement(client, placement), Form.JSON if as_json else form, follow=True)


def pause(
    placement: Id, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """Begin no further moves; those under way come to their end."""
    _say(placement, "pause", dry_run, Form.JSON if as_json else form)


def resume(
    placement: Id, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """Go on after a pause."""
    _say(placement, "resume", dry_run, Form.JSON if as_json else form)


def cancel(
    placement: Id,
    follow: Watch = True,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """End it: moves under way are given back, what has moved stays. Apply it again, or roll it back."""
    if dry_run:
        _say(placement, "cancel", dry_run, Form.JSON if as_json else form)
        return
    with rest_client() as client:
        row = answer(client.post(_path(placement, "cancel")))
        _go_on(client, row, Form.JSON if as_json else form, follow=follow)


def rollback(
    placement: Id,
    bytes_per_second: Rate = None,
    moves_per_broker: PerBroker = None,
    partitions_at_once: AtOnce = None,
    follow: Watch = True,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Move replicas back to where they were when the plan was made, from wherever they are. Of the limits what is
    not named stays."""
    limits = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    if dry_run:
        _say(placement, "rollback", dry_run, Form.JSON if as_json else form, limits)
        return
    with rest_client() as client:
        row = answer(client.post(_path(placement, "rollback"), json=limits))
        _go_on(client, row, Form.JSON if as_json else form, follow=follow)


def _agreed(row: dict[str, Any], *, yes: bool) -> str:
    """The digest of the plan, once the operator has seen it and typed the name of the cluster."""
    if row["plan"] is None:
        fail(f"placement {row['id']} has no plan that could be applied: it is {row['state']}")
    tell(row["plan"])
    if not yes:
        typed = typer.prompt(f"Type the name of the cluster ({row['cluster']}) to move its replicas", err=True)
        if typed != row["cluster"]:
            fail("Nothing was moved: that is another name.")
    digest: str = row["plan"]["digest"]
    return digest


def _say(placement: str, word: str, dry_run: bool, form: Form, body: dict[str, Any] | None = None) -> None:
    with rest_client() as client:
        _show(answer(client.post(_path(placement, word), json=body, params=preview(dry_run))), form)
    say_if_dry(dry_run)


def _go_on(client: httpx2.Client, row: dict[str, Any], form: Form, *, follow: bool) -> None:
    say_limits(row)
    if follow:
        row = _followed(client, row)
    _show(row, form)
    if row["state"] == "paused":
        typer.echo("paused: `treeline placement resume` lets it go on", err=True)
    elif row["reason"]:
        fail(f"nothing was moved: {row['reason']}")


def _followed(client: httpx2.Client, row: dict[str, Any]) -> dict[str, Any]:
    """The placement once nothing moves any more; progress is told on stderr as it changes."""
    said, began = None, time.monotonic()
    while row["state"] in _GOING_ON:
        words = progress_of(row)
        if words != said:
            said = words
            typer.echo(f"{time.monotonic() - began:6.1f} s  {words}", err=True)
        time.sleep(_LOOK_SECONDS)
        row = read_placement(client, row["id"])
    return row


def _show(row: dict[str, Any], form: Form) -> None:
    report = row["report"] or {}
    show(row, form, _COLUMNS, [{**row, **{name: report.get(name, "") for name in _COLUMNS[3:]}}])
    say_what_others_did(report)


def _path(placement: str, word: str) -> str:
    return f"/placements/{quote(placement, safe='')}/{word}"
