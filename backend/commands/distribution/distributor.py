"""`treeline distributor`: pause, resume and retarget one distributor, limit its bandwidth, compress its copies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, fields_of, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present

COLUMNS = ("cluster", "level", "target", "state", "paused", "bytes_per_second", "compression", "lag_records")
TARGET_COLUMNS = ("cluster", "level", "target", "previous", "operation")
NO_LIMIT = "none"

Cluster = Annotated[
    str, typer.Argument(help="The cluster that the distributor reads.", autocompletion=clusters_beginning)
]
Level = Annotated[int, typer.Argument(help="Its level.", min=1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]

program = typer.Typer(no_args_is_help=True, help="Show and change how one distributor does its work.")


class Compression(StrEnum):
    """How copies can be compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="distributor")


@program.command()
def pause(
    cluster: Cluster,
    level: Level,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Let a distributor wait; it keeps its place. Records pass no other way meanwhile."""
    _change(cluster, level, {"paused": True}, dry_run, Form.JSON if as_json else form)


@program.command()
def resume(
    cluster: Cluster,
    level: Level,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Let a paused distributor go on where it was."""
    _change(cluster, level, {"paused": False}, dry_run, Form.JSON if as_json else form)


@program.command("set")
def set_(
    cluster: Cluster,
    level: Level,
    bytes_per_second: Annotated[
        str | None,
        typer.Option(help='Most bytes of copies a second, before compression; "none" takes the limit away.'),
    ] = None,
    compression: Annotated[Compression | None, typer.Option(help="How copies are compressed.")] = None,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Limit a distributor's bandwidth, or choose how its copies are compressed."""
    changes: dict[str, Any] = {}
    if bytes_per_second is not None:
        changes["bytes_per_second"] = rate_of(bytes_per_second)
    if compression is not None:
        changes["compression"] = compression.value
    if not changes:
        fail("Nothing to set: give --bytes-per-second, --compression, or both.", 2)
    _change(cluster, level, changes, dry_run, Form.JSON if as_json else form)


@program.command("retarget")
def retarget(
    cluster: Cluster,
    level: Level,
    target: Annotated[
        str,
        typer.Argument(
            help="A leaf of the sibling subtree; `distributor show` tells which.",
            autocompletion=clusters_beginning,
        ),
    ],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Let a distributor copy to another leaf; it goes on there where it was, and nothing is lost or doubled."""
    path = f"/trees/main/targets/{quote(cluster, safe='')}/{level}"
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        found = answer(client.put(path, json={"target": target}, params=params))
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    show(found, Form.JSON if as_json else form, TARGET_COLUMNS, [found])


@program.command("show", cls=WatchCommand)
def show_(
    cluster: Cluster,
    level: Level,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one distributor."""
    path = _path(cluster, level)
    present(lambda client: fields_of(answer(client.get(path))), Form.JSON if as_json else form, every)


def rate_of(text: str) -> int | None:
    """Bytes a second; None: no limit. Exits with 2 for what is neither."""
    if text == NO_LIMIT:
        return None
    try:
        return int(text)
    except ValueError:
        fail(f'--bytes-per-second is a whole number or "{NO_LIMIT}", not {text[:40]!r}.', 2)


def _path(cluster: str, level: int) -> str:
    return f"/trees/main/distributors/{quote(cluster, safe='')}/{level}"


def _change(cluster: str, level: int, changes: dict[str, Any], dry_run: bool, form: Form) -> None:
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        found = answer(client.patch(_path(cluster, level), json=changes, params=params))
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    show(found, form, COLUMNS, [found])
