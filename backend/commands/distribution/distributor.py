"""`treeline distributor`: pause, resume and retarget one distributor, limit its rate, compress its copies."""

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
    str, typer.Argument(help="Source cluster of the distributor.", autocompletion=clusters_beginning)
]
Level = Annotated[int, typer.Argument(help="Level of the distributor.", min=1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the request without changing anything.")]

program = typer.Typer(no_args_is_help=True, help="Show, pause, resume, limit and retarget a distributor.")


class Compression(StrEnum):
    """Compression of copies."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(program, name="distributor")


@program.command()
def pause(
    cluster: Cluster,
    level: Level,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Pause a distributor; it keeps its position. Its records take no other path in the meantime."""
    _change(cluster, level, {"paused": True}, dry_run, Form.JSON if as_json else form)


@program.command()
def resume(
    cluster: Cluster,
    level: Level,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused distributor from its position."""
    _change(cluster, level, {"paused": False}, dry_run, Form.JSON if as_json else form)


@program.command("set")
def set_(
    cluster: Cluster,
    level: Level,
    bytes_per_second: Annotated[
        str | None,
        typer.Option(help='Maximum bytes of copies a second, before compression; "none" removes the limit.'),
    ] = None,
    compression: Annotated[Compression | None, typer.Option(help="Compression of copies.")] = None,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Limit a distributor's rate, or choose the compression of its copies."""
    changes: dict[str, Any] = {}
    if bytes_per_second is not None:
        changes["bytes_per_second"] = rate_of(bytes_per_second)
    if compression is not None:
        changes["compression"] = compression.value
    if not changes:
        fail("Nothing to set; give --bytes-per-second, --compression, or both.", 2)
    _change(cluster, level, changes, dry_run, Form.JSON if as_json else form)


@program.command("retarget")
def retarget(
    cluster: Cluster,
    level: Level,
    target: Annotated[
        str,
        typer.Argument(
            help="New target: a leaf of the sibling subtree (see `distributor show`).",
            autocompletion=clusters_beginning,
        ),
    ],
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Switch a distributor to another target; it continues from its position without loss or duplicates."""
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
    """Show all details of one distributor."""
    path = _path(cluster, level)
    present(lambda client: fields_of(answer(client.get(path))), Form.JSON if as_json else form, every)


def rate_of(text: str) -> int | None:
    """Parse bytes a second; None: no limit. Exits with 2 if it is neither."""
    if text == NO_LIMIT:
        return None
    try:
        return int(text)
    except ValueError:
        fail(f'--bytes-per-second must be a whole number or "{NO_LIMIT}", not {text[:40]!r}.', 2)


def _path(cluster: str, level: int) -> str:
    return f"/trees/main/distributors/{quote(cluster, safe='')}/{level}"


def _change(cluster: str, level: int, changes: dict[str, Any], dry_run: bool, form: Form) -> None:
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        found = answer(client.patch(_path(cluster, level), json=changes, params=params))
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    show(found, form, COLUMNS, [found])
