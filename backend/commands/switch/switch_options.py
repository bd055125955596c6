"""Options shared by the commands that plan or start a switch."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from backend.commands.shell.completion import clusters_beginning, tenants_beginning


class Drain(StrEnum):
    """Clusters that must have the source's records before clients move."""

    TARGET = "target"
    ALL_LEAVES = "all_leaves"


From = Annotated[
    str, typer.Option("--from", help="Cluster that clients leave.", autocompletion=clusters_beginning)
]
To = Annotated[str, typer.Option("--to", help="Cluster that clients move to.", autocompletion=clusters_beginning)]
Tenant = Annotated[
    str | None,
    typer.Option(
        help="Only clients of this tenant; default: all clients on the cluster.", autocompletion=tenants_beginning
    ),
]
Instance = Annotated[str | None, typer.Option(help="Only this instance of the tenant.")]
Environment = Annotated[str | None, typer.Option(help="Only this environment of the instance.")]
Zone = Annotated[str | None, typer.Option(help="Only clients of this availability zone.")]
Emergency = Annotated[bool, typer.Option("--emergency", help="The cluster is down: move clients without waiting.")]
DrainOption = Annotated[
    Drain,
    typer.Option("--drain", help="Clusters that must have the source's records before clients move."),
]


def request_body(
    source: str,
    target: str,
    tenant: str | None,
    instance: str | None,
    environment: str | None,
    zone: str | None,
    emergency: bool,
    drain: Drain,
) -> dict[str, Any]:
    """Return the request body for the control plane."""
    named = {"tenant": tenant, "instance": instance, "environment": environment, "zone": zone}
    return {
        "from": source,
        "to": target,
        "mode": "emergency" if emergency else "planned",
        "drain": drain.value,
        **{name: value for name, value in named.items() if value is not None},
    }
