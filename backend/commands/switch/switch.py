"""`treeline switch`: moving the clients of environments from one cluster to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from backend.commands.shell.output import Form, FormOption, JsonOption
from backend.commands.shell.rest import fail
from backend.commands.switch import switch_plan, switch_running
from backend.commands.switch.switch_options import (
    Drain,
    DrainOption,
    Emergency,
    Environment,
    From,
    Instance,
    Tenant,
    To,
    Zone,
    request_body,
)

program = typer.Typer(no_args_is_help=True, help="Move the clients of environments from one cluster to another.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    switch_running.register(program)
    app.add_typer(program, name="switch")


@program.command()
def plan(
    source: From,
    target: To,
    tenant: Tenant = None,
    instance: Instance = None,
    environment: Environment = None,
    zone: Zone = None,
    emergency: Emergency = False,
    drain: DrainOption = Drain.TARGET,
    without_cluster: Annotated[
        list[str] | None, typer.Option(help="What if this cluster were gone; can be repeated.")
    ] = None,
    without_zone: Annotated[
        list[str] | None, typer.Option(help="What if all clusters of this zone were gone; can be repeated.")
    ] = None,
    without_broker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLUSTER/ID",
            help="What if this broker failed: CLUSTER/ID, at most one per cluster; can be repeated.",
        ),
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write the plan to this file, as JSON.")] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show what a switch would do, and its blockers; nothing changes. Exit code 1: there are blockers."""
    body = request_body(source, target, tenant, instance, environment, zone, emergency, drain)
    body["without"] = {
        "clusters": without_cluster or [],
        "zones": without_zone or [],
        "brokers": [_broker(each) for each in without_broker or []],
    }
    switch_plan.run(body, export, Form.JSON if as_json else form)


def _broker(text: str) -> dict[str, Any]:
    cluster, _, broker = text.rpartition("/")
    if not cluster or not (broker.isascii() and broker.isdigit()):
        fail(f"--without-broker {text}: use CLUSTER/ID with the id of a broker, such as cluster-1/3", 2)
    return {"cluster": cluster, "broker": int(broker)}
