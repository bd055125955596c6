"""`treeline get offsets` and `treeline offsets`: what groups have committed, and setting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, streams_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, listed, show
from backend.commands.shell.rest import answer, pages, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present_list

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("group", "stream", "partition", "cluster", "offset", "mode", "re_read_bound", "state", "reason")
NOT_FOLLOWED_COLUMNS = ("cluster", "technical_group", "topic", "reason")
RESET_COLUMNS = ("cluster", "stream", "group", "partition", "offset")

offsets = typer.Typer(no_args_is_help=True, help="Offsets of consumer groups; `get offsets` lists them.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(offsets, name="offsets")


def committed(client: httpx2.Client, group: str) -> Shown:
    """Groups' commits, each with a row for every cluster: where it was made, then where it goes on."""
    items = pages(client, "/offsets", {"group": group} if group else {})
    _tell_what_waits(answer(client.get("/offsets", params={"limit": 1})).get("translation") or {})
    return Shown(answer=listed(items), columns=COLUMNS, rows=[row for item in items for row in _rows(item)])


def _tell_what_waits(translation: dict[str, Any]) -> None:
    """Say on stderr what commits wait for that are not in the list yet, if any do."""
    if translation.get("text"):
        since = f" (since {translation['since']})" if translation.get("since") else ""
        typer.echo(f"{translation['text']}{since}", err=True)


def _rows(item: dict[str, Any]) -> list[dict[str, Any]]:
    path = "/".join(item[part] for part in ("tenant", "instance", "environment", "stream"))
    place = {"group": item["group"], "stream": path, "partition": item["partition"]}
    made = {**place, "cluster": item["cluster"], "offset": item["committed_offset"], "state": "committed"}
    return [made, *({**place, **each} for each in item["elsewhere"])]


@offsets.command("not-followed", cls=WatchCommand)
def not_followed(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List groups whose offsets are not distributed, with the reasons."""
    present_list("/offsets/not-followed", NOT_FOLLOWED_COLUMNS, Form.JSON if as_json else form, every)


@offsets.command()
def reset(
    stream: Annotated[
        str, typer.Argument(help="tenant/instance/environment/stream", autocompletion=streams_beginning)
    ],
    group: Annotated[str, typer.Argument(help="The group's logical name.")],
    cluster: Annotated[
        str, typer.Option(help="Where it is set; the other clusters follow.", autocompletion=clusters_beginning)
    ],
    to: Annotated[str, typer.Option(help="earliest, latest, an offset, or a time (ISO 8601).")],
    partition: Annotated[int | None, typer.Option(min=0, help="Every partition if left out.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be set, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Set a group's offsets, also further back. Its consumers on that cluster must be stopped."""
    body = {"cluster": cluster, "stream": stream, "group": group, "to": to, "partition": partition}
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        found = answer(client.post("/offsets/reset", json=body, params=params))
    rows = [{**found, "partition": int(number), "offset": at} for number, at in found["offsets"].items()]
    show(found, Form.JSON if as_json else form, RESET_COLUMNS, rows)
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
