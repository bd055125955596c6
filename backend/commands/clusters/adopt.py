"""`treeline adopt`: turn a cluster's existing topics into streams."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.commands.shell.rest_hints import in_commands

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("topic", "action", "stream", "partitions", "records", "changes", "note")
GROUP_COLUMNS = ("group", "stands_for", "reason")
MOST_AT_ONCE = 1000
LOOK_SECONDS = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(adopt)


def adopt(
    cluster: Annotated[
        str,
        typer.Argument(metavar="CLUSTER", help="Name of a cluster.", autocompletion=clusters_beginning),
    ],
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be repeated.")] = None,
    named: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="tenant/instance/environment/stream=topic: the stream of a topic whose name matches several "
            "streams; may be repeated.",
        ),
    ] = None,
    take_settings: Annotated[
        bool,
        typer.Option(
            "--take-settings",
            help="New streams declare the settings that their topic has beside a stream's own fields, such as "
            "compression.type, for all clusters. Otherwise they stay on this cluster only.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Adopt a cluster's existing topics: declare their streams, without touching their records.

    Exit 1: topics were refused meanwhile, and are listed. Exit 3: the plan changed meanwhile.
    """
    form = Form.JSON if as_json else form
    warned: list[dict[str, Any]] = []
    with rest_client() as client:
        path = f"/clusters/{quote(cluster, safe='')}/adoption"
        asked: dict[str, Any] = {"as": named or [], "take_settings": take_settings}
        plan = answer(client.get(path, params=asked))
        if dry_run:
            _show(plan, form)
            return
        left = [row["topic"] for row in plan["topics"] if row["action"] in ("declare", "join")]
        left = left if topic is None else topic
        warned = [row for row in plan["topics"] if row["topic"] in left and row["undeclared"]]
        report: dict[str, Any] = {"cluster": cluster, "adopted": 0, "refused": {}}
        while left:
            batch, left = left[:MOST_AT_ONCE], left[MOST_AT_ONCE:]
            body = {"digest": plan["digest"], "topics": batch, **asked}
            begun = answer(client.post(path, json=body))
            if begun["operation"] is not None:
                result = _follow(client, begun["operation"])
                report["adopted"] += result["adopted"]
                report["refused"] |= result["refused"]
            if left:
                plan = answer(client.get(path, params=asked))
    rows = [{"topic": name, "refused": reason} for name, reason in report["refused"].items()]
    if form is not Form.TABLE:
        show(report, form, (), [])
    else:
        typer.echo(f"{report['adopted']} topics of {cluster} adopted.", err=True)
        for row in warned:
            own = ", ".join(f"{name}={value}" for name, value in row["undeclared"].items())
            typer.echo(
                f"Warning: {row['topic']} keeps {own} on {cluster} only; its stream does not declare it.", err=True
            )
        if rows:
            show(report, form, ("topic", "refused"), rows)
    if rows:
        raise typer.Exit(Code.NOT_SO)


def _show(plan: dict[str, Any], form: Form) -> None:
    rows = [
        {
            **row,
            "changes": ", ".join(
                f"{name}: {each['from']} → {each['to']}" for name, each in row["changes"].items()
            ),
            "note": "; ".join([row["reason"] or "", *row["warnings"]]).strip("; "),
        }
        for row in plan["topics"]
    ]
    show(plan, form, COLUMNS, rows)
    if form is Form.TABLE:
        if plan["groups"]:
            show(plan, form, GROUP_COLUMNS, plan["groups"])
        for warning in plan["warnings"]:
            typer.echo(f"Warning: {warning}", err=True)
        typer.echo("This was a dry run: nothing changed.", err=True)


def _follow(client: httpx2.Client, operation: str) -> dict[str, Any]:
    """Return the result of an adoption, once it has ended; progress is printed to stderr."""
    shown = None
    while True:
        found = answer(client.get(f"/operations/{operation}"))
        if found["state"] == "failed":
            fail(in_commands(found["problem"]["detail"]))
        if found["state"] == "succeeded":
            result: dict[str, Any] = found["result"]
            return result
        if found["progress"] != shown:
            shown = found["progress"]
            typer.echo(f"adopting: {shown:.0%}", err=True)
        time.sleep(LOOK_SECONDS)
