"""`treeline trace`: the origin and the copies of one record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, streams_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client

COLUMNS = ("cluster", "offset", "copy_flags", "hops", "from", "time", "remark")


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(trace)


def trace(
    stream: Annotated[
        str,
        typer.Argument(
            help="tenant/instance/environment/stream, or an internal stream.", autocompletion=streams_beginning
        ),
    ],
    partition: Annotated[int, typer.Argument(min=0, help="Partition of the record.")],
    offset: Annotated[int, typer.Argument(min=0, help="Offset of the record on the cluster of --cluster.")],
    cluster: Annotated[
        str, typer.Option(help="A cluster that has the record.", autocompletion=clusters_beginning)
    ],
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Trace one record: its origin, its copies on all clusters, and where and why it is missing.

    Exit 1: it is missing somewhere, or does not exist.
    """
    asked: dict[str, Any] = {"cluster": cluster, "stream": stream, "partition": partition, "offset": offset}
    with rest_client() as client:
        found = answer(client.get("/trace", params=asked))
    show(found, Form.JSON if as_json else form, COLUMNS, _rows(found))
    if found["missing"]:
        raise typer.Exit(1)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    origin = found["origin"]
    gone = {True: "", False: "; no longer there", None: "; could not be checked"}
    rows = [
        {
            "cluster": origin["cluster"] or f"number {origin['number']}",
            "offset": origin["offset"],
            "time": _time(origin["timestamp_ms"]),
            "remark": f"first produced here{gone[origin['present']]}",
        }
    ]
    for copy in found["copies"]:
        unsure = "possibly from another cluster" if copy["from"] and not copy["from_certain"] else ""
        rows.append({**copy, "time": _time(copy["arrived_at_ms"]), "remark": unsure})
    return [*rows, *({"cluster": each["cluster"], "remark": each["reason"]} for each in found["missing"])]


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None or milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
