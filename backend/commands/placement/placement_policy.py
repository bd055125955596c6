"""`treeline placement policy`: the reaction to brokers that join or leave a cluster."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.placement.placement_limits import named_limits
from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.domain.placement.placement_policy import Policy

_COLUMNS = ("cluster", "policy", "away_minutes", "bytes_per_second", "moves_per_broker", "partitions_at_once")


def policy(
    cluster: Annotated[str, typer.Argument(help="Name of a cluster.", autocompletion=clusters_beginning)],
    wanted: Annotated[
        Policy | None,
        typer.Option("--set", help="off: do nothing; propose: create a plan; apply: also apply it."),
    ] = None,
    away_minutes: Annotated[
        int | None, typer.Option(min=1, help="Minutes after which a broker that is away counts as having left.")
    ] = None,
    bytes_per_second: Annotated[
        str | None, typer.Option(help='Replication throttle per broker, in bytes per second; "none" removes it.')
    ] = None,
    moves_per_broker: Annotated[
        int | None, typer.Option(min=1, help="Concurrent moves that a broker takes part in.")
    ] = None,
    partitions_at_once: Annotated[
        int | None, typer.Option(min=1, help="Partitions that move concurrently.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show or set the placement policy of a cluster: what happens when brokers join or leave.

    Omitted options keep their values.
    """
    path = f"/clusters/{quote(cluster, safe='')}/placement-policy"
    named = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    sets = wanted is not None or away_minutes is not None or bool(named)
    if dry_run and not sets:
        fail("--dry-run needs a change to check, such as --set propose", 2)
    with rest_client() as client:
        read = client.get(path)
        found: dict[str, Any] = answer(read)
        if sets:
            body = {
                "policy": found["policy"] if wanted is None else str(wanted),
                "away_minutes": found["away_minutes"] if away_minutes is None else away_minutes,
                "limits": {**found["limits"], **named},
            }
            params = {"dry_run": "true"} if dry_run else {}
            headers = {"If-Match": read.headers["ETag"]}
            found = answer(client.put(path, json=body, params=params, headers=headers))
            if dry_run:
                typer.echo("This was a dry run: nothing changed.", err=True)
    row = {name: found[name] for name in ("cluster", "policy", "away_minutes")} | found["limits"]
    show(found, Form.JSON if as_json else form, _COLUMNS, [row])
