"""`treeline replication`: leaders and replicas in sync of a cluster, and electing preferred leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, show
from backend.commands.shell.rest import answer, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present
from backend.domain.base.words import counted

if TYPE_CHECKING:
    import httpx2

ALERTS = ("severity", "alert", "count", "examples", "what_to_do")
BROKERS = ("id", "rack", "is_here", "replicas", "leaders", "preferred", "lag_time_max_ms")
_CONDITIONS = {
    "without_leader": "without a leader",
    "under_replicated": "under-replicated",
    "under_min_isr": "below the minimum in sync",
    "down_to_min_isr": "down to the minimum in sync",
    "unreplicated": "un-replicated",
    "not_preferred": "not led by the preferred broker",
    "moving": "being moved",
}

Cluster = Annotated[
    str, typer.Argument(help="A cluster that the control plane knows.", autocompletion=clusters_beginning)
]

program = typer.Typer(no_args_is_help=True, help="Look after the replication of a cluster.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="replication")


@program.command("show", cls=WatchCommand)
def show_(
    cluster: Cluster,
    brokers: Annotated[
        bool, typer.Option("--brokers", help="What each broker has to do, not the alerts.")
    ] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show how well a cluster's partitions are replicated, as it was seen some seconds ago, and what to do."""

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get(f"{_path(cluster)}/replication"))
        told, health = list(_told(found)), found["health"]
        if brokers:
            return Shown(answer=found, columns=BROKERS, rows=health["brokers"] if health else [], told=told)
        rows = [{**row, "examples": ", ".join(row["examples"])} for row in found["alerts"]]
        return Shown(answer=found, columns=ALERTS, rows=rows, told=told)

    present(look, Form.JSON if as_json else form, every)


@program.command("elect-leaders")
def elect_leaders(
    cluster: Cluster,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic, by its name on the cluster; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Have the preferred broker of each partition lead it, where that is in sync.

    The table has the partitions that are left as they are, by the reason.
    """
    body = {"topics": topic} if topic else {}
    params = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        done = answer(client.post(f"{_path(cluster)}/elect-preferred-leaders", json=body, params=params))
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    one = done["elected"] == 1
    would = "would be led" if dry_run else "is led" if one else "are led"
    typer.echo(
        f"{counted(done['elected'], 'partition')} {would} by their preferred broker now, "
        f"{done['already']:,} were already",
        err=True,
    )
    rows = [{**row, "examples": ", ".join(row["examples"])} for row in done["refused"]]
    show(done, Form.JSON if as_json else form, ("reason", "count", "examples"), rows)


def _path(cluster: str) -> str:
    return f"/clusters/{quote(cluster, safe='')}"


def _told(found: dict[str, Any]) -> Iterator[str]:
    """The whole in some sentences."""
    if found["reason"]:
        yield f"{found['cluster']} does not tell at the moment: {found['reason']}"
    health = found["health"]
    if health is None:
        yield f"{found['cluster']} was not looked at yet"
        return
    away = f" ({health['away']['count']} away)" if health["away"]["count"] else ""
    yield (
        f"{found['cluster']}, {found['age_seconds']:.0f} s ago: "
        f"{counted(len(health['brokers']), 'broker')}{away}, "
        f"{counted(health['topics'], 'topic')}, {counted(health['partitions'], 'partition')}"
    )
    counts = {words: health["conditions"][name]["count"] for name, words in _CONDITIONS.items()}
    told = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    yield f"of these {told}" if told else "all of them replicated as they should be"
