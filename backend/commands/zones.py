"""`treeline zones`: the zone router's nodes, epochs and bytes between zones; forgetting a node that is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.output import Form, FormOption, JsonOption, show
from backend.commands.rest import answer, rest_client
from backend.domain.words import counted
from backend.domain.zone_traffic import crosses

NODES = ("node", "zone", "serves", "broker", "stands for", "epoch", "open streams", "state")
TRAFFIC = ("plane", "from", "to", "bytes", "crosses")

program = typer.Typer(help="The zone router: nodes, epochs, and bytes between zones.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="zones")


@program.callback(invoke_without_command=True)
def zones(
    context: typer.Context,
    traffic: Annotated[bool, typer.Option("--traffic", help="Bytes by plane and zones, not the nodes.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the zone router: its nodes, or bytes by plane and zones; epochs are told besides."""
    if context.invoked_subcommand is not None:
        return
    with rest_client() as client:
        found = answer(client.get("/zones"))
    for line in _told(found):
        typer.echo(line, err=True)
    rows = list(map(_hop, found["traffic"])) if traffic else list(map(_node, found["nodes"]))
    show(found, Form.JSON if as_json else form, TRAFFIC if traffic else NODES, rows)


@program.command("epochs")
def epochs(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show the epochs of the router channel, and how far each node has reported to be."""
    with rest_client() as client:
        found = answer(client.get("/route-epochs"))
    typer.echo(_epochs(found), err=True)
    show(
        found,
        Form.JSON if as_json else form,
        ("node", "reported_epoch", "fenced", "open_streams"),
        found["nodes"],
    )


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
        response = client.delete(f"/route-epochs/reports/{quote(node, safe='')}", params=params)
        if not response.is_success:
            answer(response)
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
