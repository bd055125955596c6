"""`treeline grant`, `refuse`, `withdraw` and `credentials`: access and passwords of applications."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from backend.commands.shell import kinds
from backend.commands.shell.completion import applications_beginning, streams_beginning
from backend.commands.shell.dry_run import DryRun, preview, say, say_if_dry
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, done, rest_client

CREDENTIALS_COLUMNS = ("username", "mechanisms", "number", "password")

credentials = typer.Typer(no_args_is_help=True, help="Passwords with which applications log in to clusters.")

Application = Annotated[
    str,
    typer.Argument(
        help="Full name: TENANT/INSTANCE/ENVIRONMENT/APPLICATION.", autocompletion=applications_beginning
    ),
]
Stream = Annotated[
    str,
    typer.Argument(help="Full name: TENANT/INSTANCE/ENVIRONMENT/STREAM.", autocompletion=streams_beginning),
]
Operation = Annotated[str, typer.Argument(help="produce or consume.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Shown to the application's tenant.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (grant, refuse, withdraw):
        app.command()(command)
    app.add_typer(credentials, name="credentials")


def grant(application: Application, stream: Stream, operation: Operation, dry_run: DryRun = False) -> None:
    """Grant an application's request for a stream; `get grants TENANT` lists pending requests."""
    _decide("grant", application, stream, operation, None, dry_run)


def refuse(
    application: Application, stream: Stream, operation: Operation, reason: Reason = None, dry_run: DryRun = False
) -> None:
    """Refuse an application's request."""
    _decide("refuse", application, stream, operation, reason, dry_run)


def withdraw(
    application: Application, stream: Stream, operation: Operation, reason: Reason = None, dry_run: DryRun = False
) -> None:
    """Withdraw an application's grant; its access is removed on all clusters."""
    _decide("withdraw", application, stream, operation, reason, dry_run)


@credentials.command()
def issue(
    application: Application,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Issue a new password for an application, in place of the one before, and print it, this once."""
    with rest_client() as client:
        path = f"{kinds.APPLICATION.path(application)}/credentials"
        issued = answer(client.post(path, params=preview(dry_run)))
    form = Form.JSON if as_json else form
    if dry_run:
        show(issued, form, CREDENTIALS_COLUMNS, [issued])
        say_if_dry(dry_run)
    elif form is Form.TABLE:
        typer.echo(issued["password"])
        mechanisms = " or ".join(issued["mechanisms"])
        typer.echo(f"The password of {issued['username']} ({mechanisms}); it is not shown again.", err=True)
    else:
        show(issued, form, CREDENTIALS_COLUMNS, [issued])


@credentials.command()
def revoke(application: Application, dry_run: DryRun = False) -> None:
    """Revoke an application's password; it can no longer log in to any cluster."""
    with rest_client() as client:
        done(client.delete(f"{kinds.APPLICATION.path(application)}/credentials", params=preview(dry_run)))
    say(f"Credentials of {application} revoked.", dry_run)


def _decide(
    decision: str, application: str, stream: str, operation: str, reason: str | None, dry_run: bool
) -> None:
    body = {"application": application, "stream": stream, "operation": operation, "decision": decision}
    with rest_client() as client:
        tenant = quote(stream.partition("/")[0], safe="")
        decided = answer(
            client.post(f"/tenants/{tenant}/grants", json={**body, "reason": reason}, params=preview(dry_run))
        )
    typer.echo(f"{application} {operation} {stream}: {decided['state']}.", err=True)
    say_if_dry(dry_run)
