"""`treeline messages`: the messages of a stream on one cluster."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, streams_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client

COLUMNS = ("partition", "offset", "time", "key", "value", "remark")
USUAL_LIMIT = 50
MOST_CHARACTERS = 160
"""Characters of a key or value in the table, so that a message takes one line."""
_ENDED = {
    "time": "the time of one request was over",
    "records": "one request scans no more records",
    "bytes": "one request reads no more bytes",
}


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(messages)


def messages(
    stream: Annotated[
        str, typer.Argument(help="tenant/instance/environment/stream.", autocompletion=streams_beginning)
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Cluster to read on; default: the one that the environment's clients use.",
            autocompletion=clusters_beginning,
        ),
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest; latest: the newest ones, newest first; an offset, with --partition; "
            "time:<milliseconds since 1970, or ISO 8601>; or where an earlier answer ended, after:… or before:….",
        ),
    ] = "latest",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of messages.")] = USUAL_LIMIT,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Only messages that match: key:TEXT, text:TEXT (key or value), header:NAME, header:NAME=TEXT, or "
            "json:EXPRESSION (RFC 9535). May be repeated: all must match.",
        ),
    ] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show messages of a stream, decoded and filtered. Each call is in the audit."""
    asked: dict[str, Any] = {"stream": stream, "from": start, "limit": limit, "filter": filters or []}
    asked |= {} if cluster is None else {"cluster": cluster}
    asked |= {} if partition is None else {"partition": partition}
    with rest_client() as client:
        found = answer(client.get("/messages", params=asked))
    show(found, Form.JSON if as_json else form, COLUMNS, [table_row(item) for item in found["items"]])
    if not found["complete"] and found["next"] is not None:
        words = continued(stream, found, limit, filters or ())
        why = _ENDED.get(found["ended_by"])
        scanned = f" after {found['scanned_records']:,} records, as {why}" if why else ""
        typer.echo(f"There may be more{scanned}; continue with `{shlex.join(words)}`.", err=True)


def continued(stream: str, found: dict[str, Any], limit: int, filters: Sequence[str]) -> list[str]:
    """Return the command that shows what follows an answer, with the same options."""
    words = ["treeline", "messages", stream, "--cluster", found["cluster"], "--from", found["next"]["from"]]
    words += [] if limit == USUAL_LIMIT else ["--limit", str(limit)]
    return words + [word for text in filters for word in ("--filter", text)]


def table_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message as a line of the table."""
    return {
        "partition": item["partition"],
        "offset": item["offset"],
        "time": _time(item["timestamp_ms"]),
        "key": _line(item["key"], item["key_format"]),
        "value": _line(item["value"], item["value_format"]),
        "remark": _line(_remark(item), "text"),
    }


def _remark(item: dict[str, Any]) -> str:
    if item.get("problem"):
        return str(item["problem"])
    origin = item["origin"]
    return "" if origin is None else f"copied from {origin['cluster']}, offset {origin['offset']}"


def _line(value: Any, kind: str) -> str | None:
    """Return a key or value in one line; what a producer wrote must not move the cursor or change colours."""
    if value is None:
        return None
    if kind == "bytes":
        value = base64.b64decode(value[: 4 * MOST_CHARACTERS]).hex(" ")
    text = value if isinstance(value, str) and kind in ("text", "bytes") else json.dumps(value, ensure_ascii=False)
    shown = text[: MOST_CHARACTERS + 1]
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}…"


def _time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"  # no time of this calendar: producers choose timestamps
