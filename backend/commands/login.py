"""`treeline login-link`: a way into the console."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("login-link")(login_link)


def login_link() -> None:
    """Print a link to the console that works once."""
    from backend.commands.rest import answer, rest_client

    with rest_client() as client:
        typer.echo(answer(client.post("/login-links"))["url"])
