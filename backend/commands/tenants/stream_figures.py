"""`treeline stream figures`: records, sizes, rates and partitions of a stream on every cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell import kinds
from backend.commands.shell.completion import streams_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown
from backend.commands.shell.rest import answer
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("cluster", "records", "records_per_second", "size_bytes", "disk_bytes", "newest", "in_sync", "remark")
PARTITION_COLUMNS = (
    *("partition", "cluster", "leader", "replicas", "isr", "start_offset", "end_offset", "records"),
    *("size_bytes", "newest"),
)

program = typer.Typer(no_args_is_help=True, help="Figures of one stream, from the brokers of its clusters.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(program, name="stream")


@program.command("figures", cls=WatchCommand)
def figures(
    stream: Annotated[
        str, typer.Argument(help="tenant/instance/environment/stream.", autocompletion=streams_beginning)
    ],
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show each partition instead of each cluster.")
    ] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a stream's records, sizes, rate and partitions on every cluster.

    Records are counted as offsets, so transaction markers and compacted records count as well. A rate needs two
    observations: use --watch, or ask again.
    """
    path = f"{kinds.STREAM.path(stream)}/figures"

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get(path))
        told = [f"{each['problem']}." for each in found["items"] if each["problem"]] if partitions else []
        columns = PARTITION_COLUMNS if partitions else COLUMNS
        rows = _partitions(found) if partitions else [_row(each) for each in found["items"]]
        return Shown(answer=found, columns=columns, rows=rows, told=told)

    present(look, Form.JSON if as_json else form, every)


def _row(found: dict[str, Any]) -> dict[str, Any]:
    remarks = [each for each in (found["problem"], found["detail"], found["sizes_missing"]) if each]
    known = len(found["partitions"])
    return {
        **found,
        "newest": _time(found["newest_timestamp_ms"]),
        "in_sync": f"{found['partitions_in_sync']} of {known} partitions" if known else None,
        "remark": "; ".join(remarks),
    }


def _partitions(found: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        {**each, "cluster": of["cluster"], "newest": _time(each["newest_timestamp_ms"])}
        for of in found["items"]
        for each in of["partitions"]
    ]
    return sorted(rows, key=lambda row: row["partition"])


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
