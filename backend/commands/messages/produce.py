"""`treeline produce`: one message to a stream."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, streams_beginning
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.domain.base import json_text

COLUMNS = ("cluster", "partition", "offset", "timestamp_ms")
DRY_RUN_COLUMNS = ("cluster", "topic", "partition", "bytes")


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(produce)


def produce(
    stream: Annotated[
        str, typer.Argument(help="tenant/instance/environment/stream.", autocompletion=streams_beginning)
    ],
    key: Annotated[str | None, typer.Option(help="Key, as text. Left out: the message has no key.")] = None,
    value: Annotated[str | None, typer.Option(help="Value. Left out: read from standard input.")] = None,
    value_file: Annotated[Path | None, typer.Option(help="File with the value.")] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="Produce a null value.")] = False,
    headers: Annotated[
        list[str] | None, typer.Option("--header", help="Header, as NAME=VALUE. May be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition; default: the key decides.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Cluster to write to; default: the one that the environment's clients use.",
            autocompletion=clusters_beginning,
        ),
    ] = None,
    is_json: Annotated[
        bool, typer.Option("--as-json", help="Check that the value is JSON; its text is kept.")
    ] = False,
    is_base64: Annotated[bool, typer.Option("--base64", help="The value is bytes in base64.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, but produce nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Produce a message to a stream. Each message is in the event log, without its content.

    Each call is a request of its own: if the cluster does not confirm the message in time, look at the newest
    messages before you repeat it.
    """
    if sum((value is not None, value_file is not None, tombstone)) > 1:
        fail("Give one of --value, --value-file and --tombstone.", Code.BAD_INPUT)
    if is_json and is_base64:
        fail("Give one of --as-json and --base64.", Code.BAD_INPUT)
    body: dict[str, Any] = {"stream": stream, "headers": [_header(each) for each in headers or ()]}
    body["value"] = None if tombstone else _value(_bytes(value, value_file), is_json=is_json, is_base64=is_base64)
    optional = {"key": None if key is None else {"text": key}, "partition": partition, "cluster": cluster}
    body |= {name: each for name, each in optional.items() if each is not None}
    with rest_client() as client:
        found = answer(client.post("/messages", json=body, params={"dry_run": "true"} if dry_run else {}))
    show(found, Form.JSON if as_json else form, DRY_RUN_COLUMNS if dry_run else COLUMNS, [found])
    if found.get("warning") is not None:
        typer.echo(f"Warning: {found['warning']}.", err=True)
    if dry_run:
        typer.echo("This was a dry run: nothing was produced.", err=True)


def _bytes(value: str | None, file: Path | None) -> bytes:
    if value is not None:
        return value.encode(errors="surrogateescape")
    try:
        return sys.stdin.buffer.read() if file is None else file.read_bytes()
    except OSError as error:
        fail(f"--value-file {file}: {error.strerror}.", Code.BAD_INPUT)


def _value(data: bytes, *, is_json: bool, is_base64: bool) -> dict[str, Any]:
    """Return the value as the API takes it; bytes that are no text are sent in base64."""
    if is_base64:
        return {"base64": data.decode(errors="replace").strip()}
    if is_json:
        try:
            return {"text": json_text.checked(data.decode())}
        except ValueError as error:
            fail(f"The value is not JSON: {error}.", Code.BAD_INPUT)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    # The API's texts have no NUL.
    return {"base64": base64.b64encode(data).decode()} if "\0" in text else {"text": text}


def _header(text: str) -> list[str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        fail(f"--header {text!r}: write NAME=VALUE.", Code.BAD_INPUT)
    return [name, value]
