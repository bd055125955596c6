"""`treeline context`: named control planes to work with (`contexts`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from backend.commands.shell import contexts, local
from backend.commands.shell.completion import contexts_beginning
from backend.commands.shell.contexts import LOCAL, Context, ContextInvalid
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, listed, show
from backend.commands.shell.rest import fail
from backend.domain.clusters.client_properties import is_reference

COLUMNS = ("name", "url", "token", "in_use")

program = typer.Typer(no_args_is_help=True, help="Named control planes, stored for this user.")

Name = Annotated[str, typer.Argument(help="Name of the context.", autocompletion=contexts_beginning)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(program, name="context")


@program.command("list")
def list_(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List contexts with references to their tokens; tokens stored directly are not shown."""
    with _refusals():
        found = contexts.read_contexts()
    entries = {LOCAL: None, **dict(sorted(found.known.items()))}
    rows = [_row(name, each, (found.current or LOCAL) == name) for name, each in entries.items()]
    show(listed(rows), Form.JSON if as_json else form, COLUMNS, rows)


@program.command()
def use(name: Name) -> None:
    """Make this control plane the current one; `local` is the estate of TREELINE_HOME."""
    with _refusals(), contexts.changing() as content:
        if name != LOCAL:
            content.find(name)
        content.current = None if name == LOCAL else name
    typer.echo(f"Context {name} is now the current one.", err=True)
    with _refusals():
        counts, why = local.chosen()
    if (counts or LOCAL) != name or why in local.OF_VARIABLES:
        typer.echo(f"But {why} takes precedence in this shell.", err=True)


@program.command("set")
def set_(
    name: Name,
    url: Annotated[str | None, typer.Option(help="URL of the control plane.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="${env:NAME} or ${file:/path}, resolved when needed; - reads the token itself from "
            "stdin. If a new context is given none, the command prompts for it.",
        ),
    ] = None,
    insecure_http: Annotated[
        bool,
        typer.Option(
            "--insecure-http", help="Allow the token to be sent unencrypted over http to another machine."
        ),
    ] = False,
    use_it: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """Create or change a context; options that are left out keep their values."""
    with _refusals():
        contexts.check_name(name)
        before = contexts.read_contexts().known.get(name)
        address = url if url is not None or before is None else before.url
        if address is None:
            fail(f"There is no context {name} yet: give --url to create it.", Code.BAD_INPUT)
        said_before = before is not None and before.insecure_http and before.url == address
        kept = Context(
            url=contexts.check_url(address),
            token=before.token if token is None and before is not None else _token(token),
            insecure_http=insecure_http or said_before,
        )
        contexts.check_clear(kept)
        with contexts.changing() as content:
            content.known[name] = kept
            content.current = name if use_it else content.current
    more = "it is the current one" if use_it else f"`treeline context use {name}` makes it the current one"
    typer.echo(f"Context {name} is saved in {contexts.contexts_file()}; {more}.", err=True)


@program.command()
def delete(name: Name) -> None:
    """Delete a context; if it was the current one, the local estate becomes current."""
    with _refusals():
        contexts.check_name(name)
        with contexts.changing() as content:
            content.find(name)
            del content.known[name]
            if content.current == name:
                content.current = None
    typer.echo(f"Context {name} is deleted.", err=True)


@program.command("show")
def show_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of a context; default: the control plane that commands use.",
            autocompletion=contexts_beginning,
        ),
    ] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a context, or the control plane that commands use here and the reason for it."""
    with _refusals():
        if name is None:
            row = _meant()
        else:
            found = contexts.read_contexts()
            row = _row(name, None if name == LOCAL else found.find(name), (found.current or LOCAL) == name)
    rows = [{"field": field, "value": value} for field, value in row.items()]
    show(row, Form.JSON if as_json else form, ("field", "value"), rows)


def _meant() -> dict[str, Any]:
    """Return the control plane that commands use, as `local.control_plane` finds it, with an unresolved token."""
    name, why = local.chosen()
    if name not in (None, LOCAL):
        return {**_row(name, contexts.read_contexts().find(name), True), "because": why}
    try:
        place = local.control_plane()
    except local.NoEstateRuns as none:
        fail(str(none), Code.BAD_INPUT)
    return {"name": name, "url": place.url, "token": "***", "in_use": True, "because": why}


def _row(name: str | None, entry: Context | None, in_use: bool) -> dict[str, Any]:
    known = {"url": entry.url, "token": entry.token_shown} if entry else {"url": None, "token": None}
    return {"name": name, **known, "in_use": in_use}


def _token(given: str | None) -> str:
    """Return a reference as given, or the token itself, read from where no shell history records it."""
    if given is not None and given != "-":
        if not is_reference(given):
            fail(
                "--token: give a reference, ${env:NAME} or ${file:/path} (in quotes), or - for stdin: a "
                "literal token would end up in the shell's history.",
                Code.BAD_INPUT,
            )
        return given
    if given is None and not sys.stdin.isatty():
        fail("Give --token: a reference, or - to read the token from stdin.", Code.BAD_INPUT)
    text: str = typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    if not text.strip():
        fail("There is no token on stdin.", Code.BAD_INPUT)
    return contexts.check_token(text.strip())


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ContextInvalid as error:
        fail(str(error), Code.BAD_INPUT)
