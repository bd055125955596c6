"""`treeline audit`: who changed what, when, from where and how."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

COLUMNS = ("time", "kind", "actor", "tenant", "means", "address", "position", "stream", "reason")
PAGE = 500

Actor = Annotated[str | None, typer.Option(help="Only actions of this user.")]
Kind = Annotated[
    str | None,
    typer.Option(help="Only events of this name, or LoginRefused, MessagesRead …; Logins for all of these."),
]
Tenant = Annotated[str | None, typer.Option(help="Only entries of this tenant.")]
Since = Annotated[str | None, typer.Option(help="From this time on (ISO 8601; UTC if there is no time zone).")]
Until = Annotated[str | None, typer.Option(help="Before this time.")]
Workers = Annotated[bool, typer.Option("--workers", help="Include what workers did by themselves.")]

audit_app = typer.Typer(
    help="Audit trail: changes, logins, refused logins and reads of messages.", invoke_without_command=True
)


def register(app: typer.Typer) -> None:
    """Mount the commands on the program."""
    app.add_typer(audit_app, name="audit")


@audit_app.callback()
def audit(
    context: typer.Context,
    actor: Actor = None,
    kind: Kind = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    workers: Workers = False,
    own: Annotated[
        bool, typer.Option("--own", help="With --tenant: only its own entries, which its owners may read.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of items.")] = 100,
    output: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List changes, logins, refused logins and reads of messages, the newest first."""
    if context.invoked_subcommand is not None:
        return
    if own and not tenant:
        fail("--own needs --tenant: name the tenant whose entries to list.", Code.BAD_INPUT)
    path = f"/tenants/{quote(tenant or '', safe='')}/audit" if own else "/audit"
    asked = _query(actor, kind, None if own else tenant, since, until, workers)
    items: list[dict[str, Any]] = []
    with rest_client() as client:
        cursor: dict[str, str] = {}
        while len(items) < limit:
            params = {**asked, **cursor, "limit": str(min(limit - len(items), PAGE))}
            page = answer(client.get(path, params=params))
            items += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
    rows = [{**item, "time": item["time"][:19]} for item in items]
    show(items, Form.JSON if as_json else output, COLUMNS, rows)


@audit_app.command()
def export(
    actor: Actor = None,
    kind: Kind = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    workers: Workers = False,
    form: Annotated[str, typer.Option(help="csv, or jsonl: one JSON object per line.")] = "jsonl",
) -> None:
    """Write all matching entries to standard output."""
    params = {**_query(actor, kind, tenant, since, until, workers), "form": form}
    with rest_client() as client, client.stream("GET", "/audit/export", params=params) as response:
        if not response.is_success:
            response.read()
            answer(response)
        for piece in response.iter_text():
            typer.echo(piece, nl=False)


def _query(
    actor: str | None, kind: str | None, tenant: str | None, since: str | None, until: str | None, workers: bool
) -> dict[str, str]:
    given = {"actor": actor, "kind": kind, "tenant": tenant, "since": since, "until": until}
    found = {name: value for name, value in given.items() if value is not None}
    return {**found, **({"workers": "true"} if workers else {})}
