"""`treeline switch`: moving the clients of environments from one cluster to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands import switch_plan, switch_running
from backend.commands.output import Form, FormOption, JsonOption
from backend.commands.switch_wish import (
    Drain,
    DrainOption,
    Emergency,
    Environment,
    From,
    Instance,
    Tenant,
    To,
    Zone,
    wish,
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
        list[str] | None, typer.Option(help="What if this cluster were gone; may be repeated.")
    ] = None,
    without_zone: Annotated[
        list[str] | None, typer.Option(help="What if all clusters of this zone were gone; may be repeated.")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write the plan to this file, as JSON.")] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Say what a switch would do, and what stands against it; nothing changes. Exit 1: something does."""
    body = wish(source, target, tenant, instance, environment, zone, emergency, drain)
    body["without"] = {"clusters": without_cluster or [], "zones": without_zone or []}
    switch_plan.run(body, export, Form.JSON if as_json else form)
