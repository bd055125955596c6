"""`treeline schemas level` and `mode`: what holds for a subject or for all, how it is set and taken back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from backend.commands.schemas.registry_options import ClusterOption, SubjectOrAll
from backend.commands.shell.completion import levels_beginning, modes_beginning
from backend.commands.shell.dry_run import DryRun, preview, say
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.registry import (
    NO_LEVEL_OF_ITS_OWN,
    NO_MODE_OF_ITS_OWN,
    NOT_THERE,
    Registry,
    error_code,
    registry_of,
)
from backend.commands.shell.rest import fail, rest_client
from backend.registry.known_settings import LEVELS, MODES

_LEVEL_COLUMNS = ("subject", "compatibilityLevel", "normalize", "own")
_MODE_COLUMNS = ("subject", "mode", "own")

Clear = Annotated[
    bool, typer.Option("--clear", help="Take it back: that of all subjects holds, and of all the usual one.")
]


def register(program: typer.Typer) -> None:
    """Add the commands."""
    program.command()(level)
    program.command()(mode)


def level(
    subject: SubjectOrAll = None,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="LEVEL", help=f"One of {', '.join(LEVELS)}.", autocompletion=levels_beginning
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Whether what only its way of writing adds is left out."),
    ] = None,
    clear: Clear = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show which compatibility level holds for a subject or for all, and whether it is its own; set it, or take it
    back. What is not named stays."""
    fields = {"compatibility": wanted, "normalize": normalize}
    body = {name: value for name, value in fields.items() if value is not None}
    _check_use(sets=bool(body), clear=clear, dry_run=dry_run)
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = _asked(registry, "config", subject, NO_LEVEL_OF_ITS_OWN, body, clear=clear, dry_run=dry_run)
    # A registry calls it otherwise where it answers a write.
    level_there = found.pop("compatibility", None)
    row = {"subject": subject, "compatibilityLevel": level_there, "normalize": False, **found}
    show(row, Form.JSON if as_json else form, _LEVEL_COLUMNS, [row])
    _say(clear=clear, sets=bool(body), dry_run=dry_run)


def mode(
    subject: SubjectOrAll = None,
    wanted: Annotated[
        str | None,
        typer.Option("--set", metavar="MODE", help=f"One of {', '.join(MODES)}.", autocompletion=modes_beginning),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Set IMPORT although there are schemas already.")] = False,
    clear: Clear = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show which mode holds for a subject or for all, and whether it is its own; set it, or take it back."""
    body = {} if wanted is None else {"mode": wanted}
    _check_use(sets=bool(body), clear=clear, dry_run=dry_run)
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = _asked(
            registry, "mode", subject, NO_MODE_OF_ITS_OWN, body, clear=clear, dry_run=dry_run, force=force
        )
    row = {"subject": subject, **found}
    show(row, Form.JSON if as_json else form, _MODE_COLUMNS, [row])
    _say(clear=clear, sets=bool(body), dry_run=dry_run)


def _check_use(*, sets: bool, clear: bool, dry_run: bool) -> None:
    if sets and clear:
        fail("--clear takes back what is set: give one of both.", Code.BAD_INPUT)
    if dry_run and not sets and not clear:
        fail("--dry-run goes with --set or --clear.", Code.BAD_INPUT)


def _asked(
    registry: Registry,
    setting: str,
    subject: str | None,
    none_of_its_own: int,
    body: dict[str, Any],
    *,
    clear: bool,
    dry_run: bool,
    force: bool = False,
) -> dict[str, Any]:
    """What a registry says of a setting, with whether it is the subject's own; of one taken back, what it was."""
    path = (setting,) if subject is None else (setting, subject)
    if clear:
        response = registry.send("DELETE", *path, **preview(dry_run))
        if error_code(response) == NOT_THERE:
            # In the registry's words the subject would not be there.
            fail(f"{subject} has nothing of its own to take back (the registry of {registry.cluster}).")
        return {**registry.answer(response), "own": True}
    if body:
        return {**registry.change("PUT", *path, body=body, force=force, **preview(dry_run)), "own": True}
    response = registry.send("GET", *path)
    if error_code(response) == none_of_its_own:
        return {**registry.get(*path, defaultToGlobal=True), "own": False}
    return {**registry.answer(response), "own": True}


def _say(*, clear: bool, sets: bool, dry_run: bool) -> None:
    if clear:
        say("Taken back; this is what it was.", dry_run)
    elif sets:
        say("It is set.", dry_run)
