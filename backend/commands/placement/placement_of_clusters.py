"""`treeline placement plan --cluster` and `show`: plans for clusters that the control plane knows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.placement.placement_progress import say_run
from backend.commands.shell.completion import placements_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("broker", "replicas", "leaders")
_EVERY_SECONDS = 0.5

Reassignment = Annotated[
    Path | None, typer.Option(help="Write what kafka-reassign-partitions takes to this file.")
]


def ask(wish: dict[str, Any], reassignment: Path | None, form: Form) -> None:
    """Have a plan made, wait for it and show it. Exit 1: there is none; 2: the wish cannot be meant."""
    with rest_client() as client:
        row = answer(client.post("/placements", json=wish))
        typer.echo(f"placement {row['id']} of {row['cluster']}: a worker reads the cluster and computes", err=True)
        while row["state"] == "requested":
            time.sleep(_EVERY_SECONDS)
            row = read_placement(client, row["id"])
        _tell(client, row, reassignment, form)


def show_one(
    placement: Annotated[
        str, typer.Argument(metavar="ID", help="Of a placement.", autocompletion=placements_beginning)
    ],
    reassignment: Reassignment = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a placement that was asked for, and its plan. Exit 1: it could not be planned."""
    with rest_client() as client:
        _tell(client, read_placement(client, placement), reassignment, Form.JSON if as_json else form)


def read_placement(client: httpx2.Client, placement: str) -> dict[str, Any]:
    """One placement, with its plan if it has one."""
    found: dict[str, Any] = answer(client.get(_path(placement)))
    return found


def _path(placement: str) -> str:
    return f"/placements/{quote(placement, safe='')}"


def _tell(client: httpx2.Client, row: dict[str, Any], reassignment: Path | None, form: Form) -> None:
    plan = row["plan"]
    if plan is None:
        show(row, form, ("id", "cluster", "state"), [row])
        if row["state"] == "failed":
            fail(f"{row['cluster']} was not planned: {row['reason']}")
        return
    tell(plan)
    say_run(row)
    if reassignment is not None:
        moves = answer(client.get(f"{_path(row['id'])}/reassignment"))
        write(reassignment, moves)
    leaders = plan["leaders_per_broker"]
    rows = [
        {"broker": broker, "replicas": replicas, "leaders": leaders[broker]}
        for broker, replicas in plan["replicas_per_broker"].items()
    ]
    show(row, form, COLUMNS, rows)


def tell(plan: dict[str, Any]) -> None:
    """A plan in some sentences, on stderr."""
    bound = "the fewest possible" if plan["gap"] == 0 else f"at least {plan['lower_bound']:,} needed"
    bound = "as handed in" if plan.get("given") else bound
    typer.echo(f"{plan['moves']:,} replica moves ({bound}), {plan['moved_bytes']:,} bytes", err=True)
    typer.echo(f"{plan['leader_changes']:,} leader changes; digest {plan['digest']}", err=True)
    for each in plan["violations"]:
        typer.echo(f"{each['constraint']}: {each['count']:,} partitions: {each['detail']}", err=True)
    for note in plan["notes"]:
        typer.echo(note, err=True)


def write(file: Path, moves: dict[str, Any]) -> None:
    """What Kafka's own tool takes, to a file."""
    try:
        file.write_text(json.dumps(moves, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    typer.echo(f"{len(moves['partitions']):,} partitions that change are in {file}", err=True)
