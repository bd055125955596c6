"""`treeline groups`: consumer groups on each cluster, and why they lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, streams_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, listed, table
from backend.commands.shell.rest import answer, fail, pages
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2
    from rich.console import Console

COLUMNS = ("group", "cluster", "state", "protocol", "members", "lag_records", "records_per_second", "diagnosis")
PARTITION_COLUMNS = (
    "stream",
    "partition",
    "committed_offset",
    "end_offset",
    "lag_records",
    "records_per_second",
    "time_lag_ms",
    "client",
)

groups = typer.Typer(no_args_is_help=True, help="Consumer groups: their state, members, lag, and why they lag.")

ClusterOption = Annotated[
    str | None,
    typer.Option(help="Only groups on this cluster.", autocompletion=clusters_beginning),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(groups, name="groups")


@groups.command("list", cls=WatchCommand)
def list_groups(
    cluster: ClusterOption = None,
    stream: Annotated[
        str | None,
        typer.Option(help="Only groups that read this stream.", autocompletion=streams_beginning),
    ] = None,
    diagnosis: Annotated[
        str | None, typer.Option(help="Only groups with this code, such as no-members or partition-stalled.")
    ] = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List the consumer groups of all clusters, each with one sentence that says whether it keeps up."""
    wanted = {"cluster": cluster, "stream": stream, "diagnosis": diagnosis}

    def look(client: httpx2.Client) -> Shown:
        items, told = _read(client, wanted)
        rows = [_row(item) for item in items]
        return Shown(answer=listed(items), columns=COLUMNS, rows=rows, told=told)

    present(look, Form.JSON if as_json else form, every)


@groups.command("show", cls=WatchCommand)
def show_group(
    group: Annotated[str, typer.Argument(help="Logical or technical name of the group.")],
    cluster: ClusterOption = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a group on each cluster: its diagnosis, then its partitions with their lag and their consumers."""

    def look(client: httpx2.Client) -> Shown:
        items, told = _read(client, {"group": group, "cluster": cluster})
        if not items:
            where = "on any cluster" if cluster is None else f"on {cluster}"
            fail(
                f"There is no group {group!r} {where}. `treeline groups list` shows the groups that are observed."
            )

        def draw(on: Console) -> None:
            for item in items:
                on.print(_heading(item), markup=False, highlight=False, soft_wrap=True)
                on.print(table(PARTITION_COLUMNS, _partitions(item)))

        return Shown(answer=listed(items), columns=(), rows=[], told=told, tables=draw)

    present(look, Form.JSON if as_json else form, every)


def _read(client: httpx2.Client, wanted: dict[str, str | None]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the groups, and messages on clusters whose groups are not, or not all, observed now."""
    params = {name: value for name, value in wanted.items() if value is not None}
    items = pages(client, "/groups", params)
    first = answer(client.get("/groups", params={**params, "limit": 1}))
    told = []
    for each in first["observations"]:
        if each["reason"]:
            told.append(f"The groups of {each['cluster']} were not observed the last time: {each['reason']}.")
        if each["truncated"]:
            told.append(f"{each['cluster']} has more groups than are observed (setting groups_most).")
    return items, told


def _row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        **item,
        "group": item["group"] or item["technical_name"],
        "members": item["member_count"],
        "diagnosis": f"{item['diagnosis']['code']}: {item['diagnosis']['text']}",
    }


def _heading(item: dict[str, Any]) -> str:
    return (
        f"{item['group'] or item['technical_name']} on {item['cluster']} ({item['technical_name']}, "
        f"{item['protocol']}, {item['state']}): {item['diagnosis']['text']}"
    )


def _partitions(item: dict[str, Any]) -> list[dict[str, Any]]:
    clients = {each["member_id"]: f"{each['client_id']} on {each['host']}" for each in item["members"]}
    return [
        {**each, "stream": each["stream"] or each["topic"], "client": clients.get(each["member"])}
        for each in item["partitions"]
    ]
