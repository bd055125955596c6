"""`treeline switch start`, `watch`, `abort`, `force`, `reverse`: run what `switch plan` shows.

Exit codes are those of `exit_codes`; 0: clients were moved (`abort`: the switch was aborted), 1: not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.completion import switches_beginning
from backend.commands.shell.dry_run import DryRun, preview, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client
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
from backend.commands.switch.switch_plan import plan_of, tell

if TYPE_CHECKING:
    import httpx2

LOOK_SECONDS = 0.25
WORST = 3
"""Limit of partitions that are named while the switch waits for records."""
ENDED = ("completed", "aborted", "failed")
COLUMNS = ("phase", "seconds", "result")

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of a switch, as listed by `treeline get switches`.",
        autocompletion=switches_beginning,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Digest = Annotated[str | None, typer.Option(help="Digest of a reviewed plan; refused if the plan has changed.")]
Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Follow the switch to its end.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `treeline switch`."""
    for command in (start, watch, abort, force, reverse):
        app.command()(command)


def start(
    source: From,
    target: To,
    tenant: Tenant = None,
    instance: Instance = None,
    environment: Environment = None,
    zone: Zone = None,
    emergency: Emergency = False,
    drain: DrainOption = Drain.TARGET,
    digest: Digest = None,
    yes: Yes = False,
    follow: Watch = True,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Move clients to another cluster: show the plan, ask for confirmation, follow the switch."""
    body = request_body(source, target, tenant, instance, environment, zone, emergency, drain)
    with rest_client() as client:
        # A plan queries clusters that may not answer, so an emergency with --yes starts without one.
        if digest is None and not (emergency and yes):
            digest = _agreed(client, body, yes=yes)
        begun = answer(client.post("/switches", json={**body, "plan_digest": digest}))
        _go_on(client, begun, Form.JSON if as_json else form, follow=follow)


def watch(switch: Id, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Follow a switch to its end; phases go to stderr as they change, the result to stdout."""
    with rest_client() as client:
        _go_on(client, _read(client, switch), Form.JSON if as_json else form, follow=True)


def abort(
    switch: Id,
    reason: Annotated[str | None, typer.Option(help="Reason, stored with the switch.")] = None,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Abort a switch before the move; clients continue on the source."""
    with rest_client() as client:
        found = answer(client.post(f"{_path(switch)}/abort", json={"reason": reason}, params=preview(dry_run)))
        _show(found, Form.JSON if as_json else form)
    say_if_dry(dry_run)


def force(
    switch: Id,
    clients: Annotated[
        list[str] | None,
        typer.Option("--client", help="Client to stop waiting for; can be repeated. Default: all."),
    ] = None,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Stop waiting for clients that do not answer; the report names them."""
    with rest_client() as client:
        found = answer(
            client.post(f"{_path(switch)}/force", json={"clients": clients or None}, params=preview(dry_run))
        )
        _show(found, Form.JSON if as_json else form)
    say_if_dry(dry_run)


def reverse(
    switch: Id,
    yes: Yes = False,
    follow: Watch = True,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Start another switch that moves the clients of a switch back."""
    with rest_client() as client:
        row = _read(client, switch)
        body = {"from": row["to"], "to": row["from"], "mode": "planned", "reverses": switch}
        digest = _agreed(client, body, yes=yes)
        begun = answer(client.post(f"{_path(switch)}/reverse", json={"plan_digest": digest}))
        _go_on(client, begun, Form.JSON if as_json else form, follow=follow)


def _agreed(client: httpx2.Client, body: dict[str, Any], *, yes: bool) -> str:
    """Return the digest of the plan after the operator has seen it and typed the name of the source."""
    plan = plan_of(client, body)
    tell(plan)
    if plan["blockers"]:
        fail("The switch was not started because the plan has blockers. Resolve them, then retry.")
    if not yes:
        typed = typer.prompt(
            f"Type the name of the cluster that clients leave ({body['from']}) to start", err=True
        )
        if typed != body["from"]:
            fail(f"The switch was not started: type {body['from']} to confirm.")
    digest: str = plan["digest"]
    return digest


def _go_on(client: httpx2.Client, row: dict[str, Any], form: Form, *, follow: bool) -> None:
    if follow:
        row = _followed(client, row)
    _show(row, form)
    if row["state"] in ("aborted", "failed"):
        raise typer.Exit(1)


def _followed(client: httpx2.Client, row: dict[str, Any]) -> dict[str, Any]:
    """Follow a switch to its end and return it; print phases and waits on stderr as they change."""
    typer.echo(f"switch {row['id']}: {row['from']} to {row['to']}, {row['mode']}", err=True)
    told, said, began = None, None, time.monotonic()
    while True:
        if row["state"] != told:
            told = row["state"]
            typer.echo(f"{time.monotonic() - began:6.1f} s  {told}", err=True)
        if row["state"] in ENDED:
            return row
        waits = _waits_for(row.get("now") or {})
        if waits != said:
            said = waits
            if waits:
                typer.echo(f"          waiting for {waits}", err=True)
        time.sleep(LOOK_SECONDS)
        row = _read(client, row["id"])


def _waits_for(now: dict[str, Any]) -> str:
    if now.get("failing"):
        return str(now["failing"])
    names = [each["client_id"] for each in now.get("waiting_for", [])] or now.get("late", [])
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"{', '.join(names[:5])}{more}"
    if isinstance(now.get("waits_for"), str):
        return str(now["waits_for"])
    if now.get("missing_records"):
        return f"at most {now['missing_records']:,} records{_where(now)}"
    return ""


def _where(now: dict[str, Any]) -> str:
    """Name the partitions that lack most records."""
    worst = now.get("lacking", [])[:WORST]
    if not worst:
        return ""
    named = [
        f"{each['stream']}/{each['partition']} on {each['target']} {each['missing_records']:,}" for each in worst
    ]
    more = now["left"] - len(worst)
    return f": {', '.join(named)}{f' and {more:,} more partitions' if more > 0 else ''}"


def _show(row: dict[str, Any], form: Form) -> None:
    if form is not Form.TABLE:
        show(row, form, (), [])
        return
    from backend.domain.switch.switch_report import milliseconds

    rows = [
        {
            "phase": phase["name"],
            "seconds": ""
            if phase["ended_at"] is None
            else f"{milliseconds(phase['started_at'], phase['ended_at']) / 1000:.2f}",
            "result": ", ".join(f"{name} {_told(value)}" for name, value in phase["measured"].items()),
        }
        for phase in row["phases"]
    ]
    show(row, form, COLUMNS, rows)
    if row["reason"]:
        typer.echo(f"{row['state']}: {row['reason']}", err=True)
    if row["report"] is not None:
        show(row, form, ("report", ""), [{"report": name, "": _told(v)} for name, v in row["report"].items()])
    if row["stranded_arrived"] is not None:
        late = [{"late records": name, "": _told(v)} for name, v in row["stranded_arrived"].items()]
        show(row, form, ("late records", ""), late)


def _told(value: Any) -> str:
    if isinstance(value, list):
        return "none" if not value else "; ".join(_told(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(each)}" for name, each in value.items())
    return "unknown" if value is None else str(value)


def _read(client: httpx2.Client, switch: str) -> dict[str, Any]:
    found: dict[str, Any] = answer(client.get(_path(switch)))
    return found


def _path(switch: str) -> str:
    return f"/switches/{quote(switch, safe='')}"
