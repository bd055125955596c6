"""`treeline events ...` and `treeline projections ...`: the event log of a control plane from the shell.

Exit codes are those of `exit_codes`; 1: the chain is broken.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import ControlPlaneAway, answer, fail, pages, rest_client

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("position", "time", "stream", "version", "name", "actor", "data")
DIFFERENCE_COLUMNS = ("kind", "name", "change", "field", "before", "after")
PAGE_EVENTS = 500
RECONNECT_SECONDS = 1.0

events_app = typer.Typer(
    help="The event log: list and follow it, check its chain, export its head.", invoke_without_command=True
)
projections_app = typer.Typer(help="Projections: tables derived from the event log.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register both groups of commands."""
    app.add_typer(events_app, name="events")
    app.add_typer(projections_app, name="projections")


@events_app.callback()
def list_events(
    context: typer.Context,
    after: Annotated[int | None, typer.Option(min=0, help="Only events above this position.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events to list.")] = 100,
    stream: Annotated[str | None, typer.Option(help="Only event streams whose name has this prefix.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Only events of this actor: a user, admin, or worker:<part>.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only events of this name, such as StreamDeclared.")] = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="List the newest N events in order, without route epochs.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new events, from now on or from --after.")
    ] = False,
    output: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List events in order, oldest first: what happened, when, and by which actor."""
    if context.invoked_subcommand is not None:
        return
    if last is not None and (after is not None or follow):
        fail(
            "--last excludes --after and --follow; give --last alone, or one of the others.",
            Code.BAD_INPUT,
        )
    form = Form.JSON if as_json else output
    wanted = {key: value for key, value in (("stream", stream), ("actor", actor), ("name", name)) if value}
    with rest_client() as client:
        if follow:
            _follow(client, after, wanted, form)
            return
        if last is not None:
            items = _listed(client, {**wanted, "newest": "true"}, 0, last)[::-1]
        else:
            items = _listed(client, wanted, after or 0, limit)
    show(items, form, COLUMNS, [_row(item) for item in items])


@events_app.command()
def verify(
    head: Annotated[
        Path | None, typer.Option(help="File of an exported head; also detects a log truncated since.")
    ] = None,
    output: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Verify the hash chain over all events. Exit 1: it is broken, with the first broken position."""
    expected = _read_head(head) if head else {}
    with rest_client() as client:
        report = answer(client.get("/events/verification", params=expected))
    form = Form.JSON if as_json else output
    row = {**report, "head": report["head"]["position"], "hash": report["head"]["hash"]}
    show(report, form, ("ok", "events", "head", "hash", "broken_at", "reason"), [row])
    if not report["ok"]:
        fail(f"The event log is broken at position {report['broken_at']}: {report['reason']}.")


@events_app.command()
def export_head() -> None:
    """Print the newest event's position and hash (JSON); store it elsewhere for `events verify --head`."""
    with rest_client() as client:
        typer.echo(json.dumps(answer(client.get("/events/head"))))


@events_app.command()
def diff(
    before: Annotated[int, typer.Argument(min=0, metavar="FROM", help="First position of the event log.")],
    after: Annotated[int | None, typer.Argument(min=0, metavar="[TO]", help="Second; default: now.")] = None,
    output: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the configuration differences between two positions; with FROM later than TO, those of going back."""
    params = {"from": before} if after is None else {"from": before, "to": after}
    with rest_client() as client:
        items = pages(client, "/events/differences", params)
    rows = [row for item in items for row in difference_rows(item)]
    show({"items": items, "next_cursor": None}, Form.JSON if as_json else output, DIFFERENCE_COLUMNS, rows)


def difference_rows(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each field that differs; one row for a difference without fields."""
    before, after = item["before"] or {}, item["after"] or {}
    said = {name: item[name] for name in ("kind", "name", "change")}
    names = list(before or after) or [None]
    return [{**said, "field": name, "before": before.get(name), "after": after.get(name)} for name in names]


@projections_app.command()
def rebuild(
    name: Annotated[str | None, typer.Argument(help="Name of the projection; default: all.")] = None,
    output: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Rebuild projections from the first event on; readers see the old rows until it is done."""
    with rest_client() as client:
        params = {"name": name} if name else {}
        rebuilt = answer(client.post("/projections/rebuild", params=params))["items"]
    show(rebuilt, Form.JSON if as_json else output, ("name", "position"), rebuilt)


def _listed(client: httpx2.Client, wanted: dict[str, str], after: int, limit: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    place: dict[str, str | int] = {"after": after} if after else {}
    while len(items) < limit:
        params = {**wanted, **place, "limit": min(limit - len(items), PAGE_EVENTS)}
        page = answer(client.get("/events", params=params))
        items += page["items"]
        if page["next_cursor"] is None:
            break
        place = {"cursor": page["next_cursor"]}
    return items


def _follow(client: httpx2.Client, after: int | None, wanted: dict[str, str], form: Form) -> None:
    import httpx2

    place = _newest(client) if after is None else after
    while True:
        try:
            with client.stream("GET", "/events/stream", params={"after": place}) as response:
                if not response.is_success:
                    response.read()
                    answer(response)
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        item = json.loads(line.removeprefix("data:"))
                        place = item["position"]
                        if _is_wanted(item, wanted):
                            typer.echo(_written(item, form))
        except (httpx2.TransportError, ControlPlaneAway) as error:
            typer.echo(f"The event stream broke ({error}); it continues after position {place}.", err=True)
        # The control plane is restarting; events of that time are read afterwards.
        time.sleep(RECONNECT_SECONDS)


def _newest(client: httpx2.Client) -> int:
    """Return the newest position that the caller may see; the head itself needs the right to read the estate."""
    items = answer(client.get("/events", params={"newest": "true", "limit": 1}))["items"]
    position: int = items[0]["position"] if items else 0
    return position


def _is_wanted(item: dict[str, Any], wanted: dict[str, str]) -> bool:
    """Return whether an event of the stream, which has all events, matches the filters."""
    return bool(
        item["stream"].startswith(wanted.get("stream", ""))
        and wanted.get("name", item["name"]) == item["name"]
        and wanted.get("actor", item["metadata"]["actor"]) == item["metadata"]["actor"]
    )


def _written(item: dict[str, Any], form: Form) -> str:
    """Return one event as a line of JSON, a document of YAML, or a line of text."""
    if form is Form.YAML:
        import yaml

        return str(yaml.safe_dump(item, sort_keys=False, allow_unicode=True, explicit_start=True)).rstrip()
    return json.dumps(item) if form is Form.JSON else _line(item)


def _row(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "time": item["time"][:19], "actor": item["metadata"]["actor"]}


def _line(item: dict[str, Any]) -> str:
    row = _row(item)
    data = json.dumps(item["data"], ensure_ascii=False)
    return f"{row['position']:>8}  {row['time']}  {row['stream']}  {row['name']}  {row['actor']}  {data}"


def _read_head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads(path.read_text())
        return {"position": int(head["position"]), "hash": str(head["hash"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(f"{path} is not a head that `treeline events export-head` wrote: {error!r}", 2)
