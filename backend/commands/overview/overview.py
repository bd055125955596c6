"""`treeline overview`: the verdict on the estate, its problems in order, and an exit code for monitoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown
from backend.commands.shell.rest import answer, fail, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("severity", "code", "problem", "since", "what to do")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("overview", cls=WatchCommand)(overview)


def overview(
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if there is a problem, for monitoring.")
    ] = False,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the verdict on the estate (on stderr), and its problems: data loss first, then availability."""
    form = Form.JSON if as_json else form
    if check and every is not None:
        fail("--check reports once with its exit code, --watch never ends: give one of them.", Code.BAD_INPUT)
    if every is not None or not check:
        present(_look, form, every)
        return
    with rest_client() as client:
        found = _look(client)
    found.write(form)
    if found.answer["state"] != "fine":
        raise typer.Exit(Code.NOT_SO)


def _look(client: httpx2.Client) -> Shown:
    found = answer(client.get("/overview"))
    return Shown(answer=found, columns=COLUMNS, rows=list(map(_row, found["problems"])), told=[found["verdict"]])


def _row(problem: dict[str, Any]) -> dict[str, Any]:
    return {
        **problem,
        "problem": problem["text"],
        "what to do": problem["advice"],
    }
