"""`treeline placement plan --cluster` and `show`: plans for clusters that the control plane knows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.placement.placement_progress import print_run
from backend.commands.shell.completion import placements_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("broker", "replicas", "leaders")
_POLL_SECONDS = 0.5

Reassignment = Annotated[
    Path | None, typer.Option(help="Write the reassignment for kafka-reassign-partitions to this file.")
]


def create_plan(wish: dict[str, Any], reassignment: Path | None, form: Form) -> None:
    """Request a plan, wait for it and print it. Exit codes: 1 no plan could be made, 2 invalid request."""
    with rest_client() as client:
        row = answer(client.post("/placements", json=wish))
        typer.echo(f"placement {row['id']} of {row['cluster']}: a worker is computing the plan", err=True)
        while row["state"] == "requested":
            time.sleep(_POLL_SECONDS)
            row = read_placement(client, row["id"])
        _print(client, row, reassignment, form)


def show_one(
    placement: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a placement.", autocompletion=placements_beginning)
    ],
    reassignment: Reassignment = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a placement and its plan. Exit code 1: no plan could be made."""
    with rest_client() as client:
        _print(client, read_placement(client, placement), reassignment, Form.JSON if as_json else form)


def read_placement(client: httpx2.Client, placement: str) -> dict[str, Any]:
    """Return a placement, with its plan if it has one."""
    found: dict[str, Any] = answer(client.get(_path(placement)))
    return found


def _path(placement: str) -> str:
    return f"/placements/{quote(placement, safe='')}"


def _print(client: httpx2.Client, row: dict[str, Any], reassignment: Path | None, form: Form) -> None:
    plan = row["plan"]
    if plan is None:
        show(row, form, ("id", "cluster", "state"), [row])
        if row["state"] == "failed":
            fail(f"no plan for {row['cluster']}: {row['reason']}")
        return
    print_plan(plan)
    print_run(row)
    if reassignment is not None:
        moves = answer(client.get(f"{_path(row['id'])}/reassignment"))
        write(reassignment, moves)
    leaders = plan["leaders_per_broker"]
    rows = [
        {"broker": broker, "replicas": replicas, "leaders": leaders[broker]}
        for broker, replicas in plan["replicas_per_broker"].items()
    ]
    show(row, form, COLUMNS, rows)


def print_plan(plan: dict[str, Any]) -> None:
    """Print a summary of a plan to stderr."""
    bound = "the minimum" if plan["gap"] == 0 else f"minimum {plan['lower_bound']:,}"
    bound = "as submitted" if plan.get("given") else bound
    typer.echo(f"{plan['moves']:,} replica moves ({bound}), {plan['moved_bytes']:,} bytes", err=True)
    typer.echo(f"{plan['leader_changes']:,} leader changes; digest {plan['digest']}", err=True)
    for each in plan["violations"]:
        typer.echo(f"{each['constraint']}: {each['count']:,} partitions: {each['detail']}", err=True)
    for note in plan["notes"]:
        typer.echo(note, err=True)


def write(file: Path, moves: dict[str, Any]) -> None:
    """Write a reassignment for kafka-reassign-partitions.sh to a file."""
    try:
        file.write_text(json.dumps(moves, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    typer.echo(f"wrote {len(moves['partitions']):,} changed partitions to {file}", err=True)
