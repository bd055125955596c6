"""`treeline replication`: leaders and ISRs of a cluster, and election of preferred leaders."""

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
    "under_min_isr": "below min.insync.replicas",
    "down_to_min_isr": "reduced to min.insync.replicas",
    "unreplicated": "with replication factor 1",
    "not_preferred": "not led by the preferred replica",
    "moving": "reassigning",
}

Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", autocompletion=clusters_beginning)]

program = typer.Typer(no_args_is_help=True, help="Inspect a cluster's replication and elect preferred leaders.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="replication")


@program.command("show", cls=WatchCommand)
def show_(
    cluster: Cluster,
    brokers: Annotated[
        bool, typer.Option("--brokers", help="Show each broker's load instead of the alerts.")
    ] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the state of a cluster's replication, as observed some seconds ago, with advice."""

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get(f"{_path(cluster)}/replication"))
        told, health = list(_summary(found)), found["health"]
        if brokers:
            return Shown(answer=found, columns=BROKERS, rows=health["brokers"] if health else [], told=told)
        rows = [{**row, "examples": ", ".join(row["examples"])} for row in found["alerts"]]
        return Shown(answer=found, columns=ALERTS, rows=rows, told=told)

    present(look, Form.JSON if as_json else form, every)


@program.command("elect-leaders")
def elect_leaders(
    cluster: Cluster,
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic, by its name on the cluster; may be repeated. Default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Elect the preferred leader of each partition where it is in sync.

    The table lists the partitions that were not elected, by reason.
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
        f"{counted(done['elected'], 'partition')} {would} by the preferred replica now, "
        f"{done['already']:,} already were",
        err=True,
    )
    rows = [{**row, "examples": ", ".join(row["examples"])} for row in done["refused"]]
    show(done, Form.JSON if as_json else form, ("reason", "count", "examples"), rows)


def _path(cluster: str) -> str:
    return f"/clusters/{quote(cluster, safe='')}"


def _summary(found: dict[str, Any]) -> Iterator[str]:
    """Describe the whole cluster in some sentences."""
    if found["reason"]:
        yield f"{found['cluster']} cannot be observed now: {found['reason']}"
    health = found["health"]
    if health is None:
        yield f"{found['cluster']} has not been observed yet"
        return
    away = f" ({health['away']['count']} offline)" if health["away"]["count"] else ""
    yield (
        f"{found['cluster']}, {found['age_seconds']:.0f} s ago: "
        f"{counted(len(health['brokers']), 'broker')}{away}, "
        f"{counted(health['topics'], 'topic')}, {counted(health['partitions'], 'partition')}"
    )
    counts = {words: health["conditions"][name]["count"] for name, words in _CONDITIONS.items()}
    told = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    yield f"of these {told}" if told else "all of them fully replicated"
