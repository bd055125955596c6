"""What all commands ask that plan or start a switch: who is to leave which cluster, and where to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, tenants_beginning


class Drain(StrEnum):
    """Who must have all that the cluster to leave holds."""

    TARGET = "target"
    ALL_LEAVES = "all_leaves"


From = Annotated[str, typer.Option("--from", help="The cluster to leave.", autocompletion=clusters_beginning)]
To = Annotated[str, typer.Option("--to", help="The cluster to go to.", autocompletion=clusters_beginning)]
Tenant = Annotated[
    str | None,
    typer.Option(
        help="Only this tenant's clients; else all that are active there.", autocompletion=tenants_beginning
    ),
]
Instance = Annotated[str | None, typer.Option(help="Only this instance of the tenant.")]
Environment = Annotated[str | None, typer.Option(help="Only this environment of the instance.")]
Zone = Annotated[str | None, typer.Option(help="Only clients of this availability zone.")]
Emergency = Annotated[bool, typer.Option("--emergency", help="The cluster is gone: wait for nothing.")]
DrainOption = Annotated[
    Drain, typer.Option("--drain", help="Who must have all that the cluster to leave holds, before clients move.")
]


def wish(
    source: str,
    target: str,
    tenant: str | None,
    instance: str | None,
    environment: str | None,
    zone: str | None,
    emergency: bool,
    drain: Drain,
) -> dict[str, Any]:
    """The body that the control plane is sent."""
    named = {"tenant": tenant, "instance": instance, "environment": environment, "zone": zone}
    return {
        "from": source,
        "to": target,
        "mode": "emergency" if emergency else "planned",
        "drain": drain.value,
        **{name: value for name, value in named.items() if value is not None},
    }
