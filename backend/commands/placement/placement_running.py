"""`treeline placement apply`, `watch`, `pause`, `resume`, `cancel`, `rollback`: execution of a plan.

Exit codes: those of `exit_codes`; 0 done (applied, rolled back, cancelled; with --no-watch: started), 1 refused.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.placement.placement_limits import named_limits, print_limits
from backend.commands.placement.placement_of_clusters import print_plan, read_placement
from backend.commands.placement.placement_progress import print_deviations, progress_of
from backend.commands.shell.completion import placements_beginning
from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

if TYPE_CHECKING:
    import httpx2

_POLL_SECONDS = 0.5
_IN_PROGRESS = ("applying", "cancelling", "rolling-back")
_COLUMNS = ("id", "cluster", "state", "partitions", "arrived", "elected")

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of a placement; `plan --cluster` prints it.", autocompletion=placements_beginning
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(help='Replication throttle per broker, in bytes per second; "none" (the default) removes it.'),
]
PerBroker = Annotated[
    int | None, typer.Option(min=1, help="Concurrent moves that a broker takes part in (default: 5).")
]
AtOnce = Annotated[int | None, typer.Option(min=1, help="Partitions that move concurrently (default: 1000).")]
Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Follow the run to its end.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `treeline placement`."""
    for command in (apply, watch, pause, resume, cancel, rollback):
        app.command()(command)


def apply(
    placement: Id,
    digest: Annotated[str | None, typer.Option(help="Digest of the plan that was reviewed.")] = None,
    bytes_per_second: Rate = None,
    moves_per_broker: PerBroker = None,
    partitions_at_once: AtOnce = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    follow: Watch = True,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Move replicas as planned: show the plan, ask for the cluster's name, and follow the run.

    While the placement is being applied, this changes its limits. Omitted limits stay as they are.
    """
    limits = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    with rest_client() as client:
        if digest is None:
            digest = _confirmed_digest(read_placement(client, placement), yes=yes)
        row = answer(client.post(_path(placement, "apply"), json={**limits, "digest": digest}))
        _follow(client, row, Form.JSON if as_json else form, follow=follow)


def watch(placement: Id, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Follow a placement to its end: progress on stderr, the result on stdout."""
    with rest_client() as client:
        _follow(client, read_placement(client, placement), Form.JSON if as_json else form, follow=True)


def pause(
    placement: Id, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """Begin no further moves; ongoing moves continue."""
    _send(placement, "pause", dry_run, Form.JSON if as_json else form)


def resume(
    placement: Id, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """Resume a paused placement."""
    _send(placement, "resume", dry_run, Form.JSON if as_json else form)


def cancel(
    placement: Id,
    follow: Watch = True,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """End the run: ongoing moves are cancelled, completed moves stay. Apply it again, or roll it back."""
    if dry_run:
        _send(placement, "cancel", dry_run, Form.JSON if as_json else form)
        return
    with rest_client() as client:
        row = answer(client.post(_path(placement, "cancel")))
        _follow(client, row, Form.JSON if as_json else form, follow=follow)


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
    """Move replicas back to where they were when the plan was made, from wherever they are.

    Omitted limits stay as they are.
    """
    limits = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    if dry_run:
        _send(placement, "rollback", dry_run, Form.JSON if as_json else form, limits)
        return
    with rest_client() as client:
        row = answer(client.post(_path(placement, "rollback"), json=limits))
        _follow(client, row, Form.JSON if as_json else form, follow=follow)


def _confirmed_digest(row: dict[str, Any], *, yes: bool) -> str:
    """Return the digest of the plan once the operator has seen it and typed the name of the cluster."""
    if row["plan"] is None:
        fail(f"placement {row['id']} has no plan to apply: it is {row['state']}")
    print_plan(row["plan"])
    if not yes:
        typed = typer.prompt(f"Type the name of the cluster ({row['cluster']}) to move its replicas", err=True)
        if typed != row["cluster"]:
            fail("Nothing was moved: the name does not match.")
    digest: str = row["plan"]["digest"]
    return digest


def _send(placement: str, word: str, dry_run: bool, form: Form, body: dict[str, Any] | None = None) -> None:
    with rest_client() as client:
        _show(answer(client.post(_path(placement, word), json=body, params=preview(dry_run))), form)
    say_if_dry(dry_run)


def _follow(client: httpx2.Client, row: dict[str, Any], form: Form, *, follow: bool) -> None:
    print_limits(row)
    if follow:
        row = _followed(client, row)
    _show(row, form)
    if row["state"] == "paused":
        typer.echo("paused: continue with `treeline placement resume`", err=True)
    elif row["reason"]:
        fail(f"nothing was moved: {row['reason']}")


def _followed(client: httpx2.Client, row: dict[str, Any]) -> dict[str, Any]:
    """Poll the placement until nothing moves any more; print progress to stderr as it changes."""
    said, began = None, time.monotonic()
    while row["state"] in _IN_PROGRESS:
        words = progress_of(row)
        if words != said:
            said = words
            typer.echo(f"{time.monotonic() - began:6.1f} s  {words}", err=True)
        time.sleep(_POLL_SECONDS)
        row = read_placement(client, row["id"])
    return row


def _show(row: dict[str, Any], form: Form) -> None:
    report = row["report"] or {}
    show(row, form, _COLUMNS, [{**row, **{name: report.get(name, "") for name in _COLUMNS[3:]}}])
    print_deviations(report)


def _path(placement: str, word: str) -> str:
    return f"/placements/{quote(placement, safe='')}/{word}"
