"""`treeline placement policy`: what is done about replicas when brokers come or go."""

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
    cluster: Annotated[
        str, typer.Argument(help="A cluster that the control plane knows.", autocompletion=clusters_beginning)
    ],
    wanted: Annotated[
        Policy | None,
        typer.Option("--set", help="off: nothing; propose: a plan is made; apply: and carried out."),
    ] = None,
    away_minutes: Annotated[
        int | None, typer.Option(min=1, help="A broker that is away for longer has left.")
    ] = None,
    bytes_per_second: Annotated[
        str | None, typer.Option(help='That a broker sends, and gets, of what is applied; "none": no limit.')
    ] = None,
    moves_per_broker: Annotated[
        int | None, typer.Option(min=1, help="Moves of that which a broker takes part in at once.")
    ] = None,
    partitions_at_once: Annotated[
        int | None, typer.Option(min=1, help="Partitions of that which are moved at once.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show what is done about replicas when brokers come or go, or set it. What is not named stays."""
    path = f"/clusters/{quote(cluster, safe='')}/placement-policy"
    named = named_limits(bytes_per_second, moves_per_broker, partitions_at_once)
    sets = wanted is not None or away_minutes is not None or bool(named)
    if dry_run and not sets:
        fail("--dry-run goes with what is to be set, such as --set propose", 2)
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
