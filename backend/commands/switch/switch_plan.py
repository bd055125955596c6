"""Output of `treeline switch plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from backend.commands.shell.output import Form, show
from backend.commands.shell.rest import answer, fail, rest_client
from backend.commands.shell.rest_hints import in_commands

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("stream", "partition", "lag_records", "late_records", "group", "re_read_bound", "group_lag", "members")
RETARGET_COLUMNS = ("cluster", "level", "target", "note")
BROKER_COLUMNS = ("cluster", "broker", "what", "count", "examples", "meaning")
MOVE_COLUMNS = ("tenant", "instance", "environment", "zone", "cluster", "could_go_to")


def run(body: dict[str, Any], export: Path | None, form: Form) -> None:
    """Request the plan and show it; exit with 1 if there are blockers."""
    with rest_client() as client:
        plan = plan_of(client, body)
    if export is not None:
        _write(plan, export)
    show(plan, form, COLUMNS, [row for item in plan["items"] for row in _rows(item)])
    if form is Form.TABLE:
        _show_more(plan)
    tell(plan)
    typer.echo(f"Digest {plan['digest']}. Nothing changed.", err=True)
    if plan["blockers"]:
        raise typer.Exit(1)


def plan_of(client: httpx2.Client, body: dict[str, Any]) -> dict[str, Any]:
    """Request the plan from the control plane."""
    plan: dict[str, Any] = answer(client.post("/switches/plan", json=body))
    return plan


def _write(plan: dict[str, Any], export: Path) -> None:
    try:
        export.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{export} cannot be written: {error.strerror}")
    typer.echo(f"Wrote the plan to {export}.", err=True)


def _rows(item: dict[str, Any]) -> list[dict[str, Any]]:
    path = "/".join(item[part] for part in ("tenant", "instance", "environment", "stream"))
    here = {**item, "stream": path}
    groups = [
        {
            "group": each["group"],
            "re_read_bound": each["re_read_bound"],
            "group_lag": each["lag_records"],
            "members": f"{each['members_on_source']}, {each['members_on_target']}",
        }
        for each in item["groups"]
    ]
    first, *others = groups or [{}]
    return [{**here, **first}, *({"stream": path, "partition": item["partition"], **each} for each in others)]


def _show_more(plan: dict[str, Any]) -> None:
    """Show tables of targets, clients that must move, and broker outcomes."""
    retargets = [*plan["retargets"], *({**each, "note": f"kept: {each['reason']}"} for each in plan["kept"])]
    if retargets:
        show(plan, Form.TABLE, RETARGET_COLUMNS, retargets)
    what_if = plan["what_if"]
    if what_if is not None and what_if["gone"]:
        moves = [{**row, "could_go_to": ", ".join(row["could_go_to"])} for row in what_if["must_move"]]
        show(plan, Form.TABLE, MOVE_COLUMNS, moves)
    if what_if is not None and what_if["brokers"]:
        rows = [
            {"cluster": gone["cluster"], "broker": gone["broker"], **each, "examples": ", ".join(each["examples"])}
            for gone in what_if["brokers"]
            for each in gone["outcomes"]
        ]
        show(plan, Form.TABLE, BROKER_COLUMNS, rows)


def tell(plan: dict[str, Any]) -> None:
    """Print a summary of the plan on stderr, blockers last."""
    if plan["what_if"] is not None:
        _tell_what_if(plan["what_if"])
    zones = (f" zone {each['zone']}" if each["zone"] else "" for each in plan["moves"])
    places = ("/".join((each["tenant"], each["instance"], each["environment"])) for each in plan["moves"])
    moved = ", ".join(f"{place}{zone}" for place, zone in zip(places, zones, strict=True))
    groups = [each for item in plan["items"] for each in item["groups"]]
    if plan["mode"] == "emergency":
        for reason in sorted({each["re_read_estimate"] for each in groups if each["re_read_estimate"]}):
            typer.echo(f"re_read_bound is an estimate for some groups: {reason}.", err=True)
    for each in plan["warnings"]:
        typer.echo(f"Warning: {_sentence(each)}", err=True)
    typer.echo(
        f"Moves {moved or 'no clients'}: {plan['from']} to {plan['to']}, generation {plan['generation']}.",
        err=True,
    )
    parts = "; ".join(f"{each['phase']} {each['ms']} ms ({each['because']})" for each in plan["expected"])
    typer.echo(f"Producers hold for {plan['expected_ms']} ms: {parts}.", err=True)
    late = "an unknown number of" if plan["late_records"] is None else f"{plan['late_records']:,}"
    if plan["mode"] == "emergency":
        typer.echo(f"At most {late} records would arrive late (from {plan['late_from']}).", err=True)
    for each in plan["blockers"]:
        typer.echo(f"Blocker: {_sentence(each)}", err=True)


def _tell_what_if(what_if: dict[str, Any]) -> None:
    for name, records in what_if["records_at_risk"].items():
        known = "unknown" if records is None else f"at most {records:,}"
        typer.echo(f"Records that only {name} has: {known}.", err=True)
    for gone in what_if["brokers"]:
        typer.echo(f"{gone['cluster']}, streams that would move: {gone['sentence']}", err=True)
        for sentence in gone["assumed"]:
            typer.echo(f"{gone['cluster']}: {sentence}", err=True)
    for each in what_if["edges"]:
        typer.echo(f"{each['cluster']}:{each['level']} to {each['target']} stops: {each['reason']}.", err=True)
    for each in what_if["cut_routes"]:
        typer.echo(f"Records of {each['origin']} do not reach {', '.join(each['unreached'])}.", err=True)


def _sentence(finding: dict[str, Any]) -> str:
    return f"{finding['subject']}: {in_commands(finding['detail'])} ({finding['slug']})"
