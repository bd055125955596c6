"""`treeline login-link`: a one-time link to the console."""

from __future__ import annotations

import typer

from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, rest_client


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("login-link")(login_link)


def login_link(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Print a link that logs in to the console once."""
    with rest_client() as client:
        found = answer(client.post("/login-links"))
    form = Form.JSON if as_json else form
    if form is Form.TABLE:
        typer.echo(found["url"])  # printed alone, so that it can be copied
    else:
        show(found, form, (), [])
