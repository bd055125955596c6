"""`treeline zones`: show the zone router's nodes, epochs and cross-zone traffic; forget an unreachable node."""

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

NODES = ("node", "zone", "roles", "broker", "brokers served", "epoch", "open streams", "state")
TRAFFIC = ("plane", "from", "to", "bytes", "cross-zone")

program = typer.Typer(
    cls=WatchGroup, help="Show and manage the zone router: nodes, epochs and cross-zone traffic."
)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(program, name="zones")


@program.callback(invoke_without_command=True)
def zones(
    context: typer.Context,
    traffic: Annotated[
        bool, typer.Option("--traffic", help="Show bytes by plane and zones instead of nodes.")
    ] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the zone router's nodes, or its bytes by plane and zones; a summary goes to stderr."""
    if context.invoked_subcommand is not None:
        return

    def fetch(client: httpx2.Client) -> Shown:
        found = answer(client.get("/zones"))
        summary = list(_summary(found))
        if traffic:
            return Shown(answer=found, columns=TRAFFIC, rows=list(map(_hop, found["traffic"])), told=summary)
        return Shown(answer=found, columns=NODES, rows=list(map(_node, found["nodes"])), told=summary)

    present(fetch, Form.JSON if as_json else form, every)


@program.command("epochs", cls=WatchCommand)
def epochs(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show the epochs of the router channel and the last epoch that each node reported."""
    columns = ("node", "reported_epoch", "fenced", "open_streams")

    def fetch(client: httpx2.Client) -> Shown:
        found = answer(client.get("/route-epochs"))
        return Shown(answer=found, columns=columns, rows=found["nodes"], told=[_epochs(found)])

    present(fetch, Form.JSON if as_json else form, every)


@program.command("forget")
def forget(
    node: Annotated[str, typer.Argument(help="Name of an unreachable node.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
) -> None:
    """Forget an unreachable node that will not return, so that the committed epoch no longer waits for it.

    What the node had not finished is no longer available to readers in other zones; they read it from the leader
    instead.
    """
    with rest_client() as client:
        params = {"dry_run": "true"} if dry_run else {}
        done(client.delete(f"/route-epochs/reports/{quote(node, safe='')}", params=params))
    typer.echo("This was a dry run: nothing changed." if dry_run else f"Node {node} forgotten", err=True)


def _summary(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences that sum up the state."""
    if not found["nodes"]:
        yield "No zone router node has reported. Add `zones: true` to the estate file to start the zone router"
        return
    epochs = found["epochs"]
    yield _epochs(epochs)
    if epochs["held_back_by"]:
        yield f"committed epoch held back by {', '.join(epochs['held_back_by'])}"
    dead = [each["node"] for each in found["nodes"] if each["fenced"]]
    if dead:
        yield f"unreachable: {', '.join(dead)}"
    yield f"{found['cross_zone_payload_bytes']:,} bytes of produced and consumed records crossed zones"
    cold = found["cold_reads"]["reads"]
    if cold:
        yield f"{counted(cold, 'cold read')} from leaders in other zones"


def _epochs(found: Mapping[str, Any]) -> str:
    return f"epochs: {found['current']} current, {found['fenced']} fenced, {found['committed']} committed"


def _node(row: Mapping[str, Any]) -> dict[str, Any]:
    is_main, served = "main" in row["serves"], sum(map(len, row["stands_for"].values()))
    return {
        "node": row["node"],
        "zone": row["zone"],
        "roles": ", ".join(row["serves"]),
        "broker": f"{row['cluster']}:{row['broker']}" if is_main else None,
        "brokers served": counted(served, "broker") if served else None,
        "epoch": row["reported_epoch"],
        "open streams": row["open_streams"],
        "state": f"{'unreachable' if row['fenced'] else 'reachable'}, last report {row['age_seconds']:.0f} s ago",
    }


def _hop(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "plane": row["plane"],
        "from": row["from_zone"],
        "to": row["to_zone"],
        "bytes": f"{row['bytes']:,}",
        "cross-zone": "yes" if crosses(row["from_zone"], row["to_zone"]) else None,
    }
