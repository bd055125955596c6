"""`treeline zones`: the zone router's nodes, epochs and bytes between zones; forgetting a node that is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.output import Form, FormOption, JsonOption, Shown
from backend.commands.shell.rest import answer, done, rest_client
from backend.commands.shell.watch import WatchCommand, WatchGroup, WatchOption, present
from backend.domain.base.words import counted
from backend.domain.zones.zone_traffic import crosses

if TYPE_CHECKING:
    import httpx2

NODES = ("node", "zone", "serves", "broker", "stands for", "epoch", "open streams", "state")
TRAFFIC = ("plane", "from", "to", "bytes", "crosses")

program = typer.Typer(cls=WatchGroup, help="The zone router: nodes, epochs, and bytes between zones.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="zones")


@program.callback(invoke_without_command=True)
def zones(
    context: typer.Context,
    traffic: Annotated[bool, typer.Option("--traffic", help="Bytes by plane and zones, not the nodes.")] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the zone router: its nodes, or bytes by plane and zones; epochs are told besides."""
    if context.invoked_subcommand is not None:
        return

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get("/zones"))
        told = list(_told(found))
        if traffic:
            return Shown(answer=found, columns=TRAFFIC, rows=list(map(_hop, found["traffic"])), told=told)
        return Shown(answer=found, columns=NODES, rows=list(map(_node, found["nodes"])), told=told)

    present(look, Form.JSON if as_json else form, every)


@program.command("epochs", cls=WatchCommand)
def epochs(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show the epochs of the router channel, and how far each node has reported to be."""
    columns = ("node", "reported_epoch", "fenced", "open_streams")

    def look(client: httpx2.Client) -> Shown:
        found = answer(client.get("/route-epochs"))
        return Shown(answer=found, columns=columns, rows=found["nodes"], told=[_epochs(found)])

    present(look, Form.JSON if as_json else form, every)


@program.command("forget")
def forget(
    node: Annotated[str, typer.Argument(help="A node that is dead.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
) -> None:
    """Forget a node that is dead and does not come back: what is committed waits for it no more.

    What it had not done with is lost to readers of other zones, who then ask the leader; the leader has it.
    """
    with rest_client() as client:
        params = {"dry_run": "true"} if dry_run else {}
        done(client.delete(f"/route-epochs/reports/{quote(node, safe='')}", params=params))
    typer.echo("This was a dry run: nothing changed." if dry_run else f"{node} is forgotten", err=True)


def _told(found: Mapping[str, Any]) -> Iterator[str]:
    """The whole in some sentences."""
    if not found["nodes"]:
        yield "No node of a zone router has reported: `zones: true` in an estate file starts one"
        return
    epochs = found["epochs"]
    yield _epochs(epochs)
    if epochs["held_back_by"]:
        yield f"committed waits for {', '.join(epochs['held_back_by'])}"
    dead = [each["node"] for each in found["nodes"] if each["fenced"]]
    if dead:
        yield f"dead: {', '.join(dead)}"
    yield f"{found['cross_zone_payload_bytes']:,} bytes of what clients produced and read went from zone to zone"
    cold = found["cold_reads"]["reads"]
    if cold:
        yield f"{counted(cold, 'cold read')}: asked of a leader in another zone"


def _epochs(found: Mapping[str, Any]) -> str:
    return f"epochs: {found['current']} current, {found['fenced']} fenced, {found['committed']} committed"


def _node(row: Mapping[str, Any]) -> dict[str, Any]:
    is_main, standing = "main" in row["serves"], sum(map(len, row["stands_for"].values()))
    return {
        "node": row["node"],
        "zone": row["zone"],
        "serves": ", ".join(row["serves"]),
        "broker": f"{row['cluster']}:{row['broker']}" if is_main else None,
        "stands for": counted(standing, "broker") if standing else None,
        "epoch": row["reported_epoch"],
        "open streams": row["open_streams"],
        "state": f"{'dead' if row['fenced'] else 'lives'}, reported {row['age_seconds']:.0f} s ago",
    }


def _hop(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "plane": row["plane"],
        "from": row["from_zone"],
        "to": row["to_zone"],
        "bytes": f"{row['bytes']:,}",
        "crosses": "yes" if crosses(row["from_zone"], row["to_zone"]) else None,
    }
