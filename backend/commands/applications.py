"""`treeline grant`, `refuse`, `withdraw` and `credentials`: what applications may do, and by which password."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from backend.commands import kinds
from backend.commands.output import Form, FormOption, JsonOption, show
from backend.commands.rest import answer, rest_client

CREDENTIALS_COLUMNS = ("username", "mechanisms", "number", "password")

credentials = typer.Typer(
    no_args_is_help=True, help="Passwords of applications, by which they log in to clusters."
)

Application = Annotated[str, typer.Argument(help="Its full name: TENANT/INSTANCE/ENVIRONMENT/APPLICATION.")]
Stream = Annotated[str, typer.Argument(help="The full name: TENANT/INSTANCE/ENVIRONMENT/STREAM.")]
Operation = Annotated[str, typer.Argument(help="produce or consume.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Shown to who asked.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (grant, refuse, withdraw):
        app.command()(command)
    app.add_typer(credentials, name="credentials")


def grant(application: Application, stream: Stream, operation: Operation, dry_run: DryRun = False) -> None:
    """Let an application do what it asked for with a stream; `get grants TENANT` lists what waits."""
    _decide("grant", application, stream, operation, None, dry_run)


def refuse(
    application: Application, stream: Stream, operation: Operation, reason: Reason = None, dry_run: DryRun = False
) -> None:
    """Refuse what an application asked for."""
    _decide("refuse", application, stream, operation, reason, dry_run)


def withdraw(
    application: Application, stream: Stream, operation: Operation, reason: Reason = None, dry_run: DryRun = False
) -> None:
    """Take back what an application was granted; it is closed on all clusters."""
    _decide("withdraw", application, stream, operation, reason, dry_run)


@credentials.command()
def issue(
    application: Application,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Give an application a new password, in the place of the one before, and print it, this once."""
    with rest_client() as client:
        issued = answer(client.post(f"{kinds.APPLICATION.path(application)}/credentials"))
    form = Form.JSON if as_json else form
    if form is Form.TABLE:
        typer.echo(issued["password"])
        mechanisms = " or ".join(issued["mechanisms"])
        typer.echo(f"The password of {issued['username']} ({mechanisms}); it is not shown again.", err=True)
    else:
        show(issued, form, CREDENTIALS_COLUMNS, [issued])


@credentials.command()
def revoke(application: Application) -> None:
    """Take an application's password away; it can no longer log in to any cluster."""
    with rest_client() as client:
        response = client.delete(f"{kinds.APPLICATION.path(application)}/credentials")
        if not response.is_success:
            answer(response)
    typer.echo(f"Credentials of {application} revoked.", err=True)


def _decide(
    decision: str, application: str, stream: str, operation: str, reason: str | None, dry_run: bool
) -> None:
    body = {"application": application, "stream": stream, "operation": operation, "decision": decision}
    params: dict[str, Any] = {"dry_run": "true"} if dry_run else {}
    with rest_client() as client:
        tenant = quote(stream.partition("/")[0], safe="")
        decided = answer(client.post(f"/tenants/{tenant}/grants", json={**body, "reason": reason}, params=params))
    typer.echo(f"{application} {operation} {stream}: {decided['state']}.", err=True)
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
