"""`treeline schemas level` and `mode`: compatibility and mode, of a subject or global; set and deleted."""

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
    bool,
    typer.Option(
        "--clear",
        help="Delete the setting: a subject falls back to the global one, the global one to its default.",
    ),
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
        typer.Option(
            "--normalize/--no-normalize", help="Normalize schemas before they are compared and registered."
        ),
    ] = None,
    clear: Clear = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show, set or delete the compatibility level, of a subject or global.

    Shows the level in force, and whether it is the subject's own. Settings that are not named stay.
    """
    fields = {"compatibility": wanted, "normalize": normalize}
    body = {name: value for name, value in fields.items() if value is not None}
    _check_use(sets=bool(body), clear=clear, dry_run=dry_run)
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = _setting(registry, "config", subject, NO_LEVEL_OF_ITS_OWN, body, clear=clear, dry_run=dry_run)
    # A registry uses another field name in its answer to a write.
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
    """Show, set or delete the mode, of a subject or global."""
    body = {} if wanted is None else {"mode": wanted}
    _check_use(sets=bool(body), clear=clear, dry_run=dry_run)
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = _setting(
            registry, "mode", subject, NO_MODE_OF_ITS_OWN, body, clear=clear, dry_run=dry_run, force=force
        )
    row = {"subject": subject, **found}
    show(row, Form.JSON if as_json else form, _MODE_COLUMNS, [row])
    _say(clear=clear, sets=bool(body), dry_run=dry_run)


def _check_use(*, sets: bool, clear: bool, dry_run: bool) -> None:
    if sets and clear:
        fail("--clear deletes the setting: give either --set or --clear.", Code.BAD_INPUT)
    if dry_run and not sets and not clear:
        fail("--dry-run goes with --set or --clear.", Code.BAD_INPUT)


def _setting(
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
    """Return a setting of a registry, with whether it is the subject's own; after a deletion, its former value."""
    path = (setting,) if subject is None else (setting, subject)
    if clear:
        response = registry.send("DELETE", *path, **preview(dry_run))
        if error_code(response) == NOT_THERE:
            # The registry's own message would say that the subject does not exist.
            fail(f"{subject} has no setting of its own to delete (registry of {registry.cluster}).")
        return {**registry.answer(response), "own": True}
    if body:
        return {**registry.change("PUT", *path, body=body, force=force, **preview(dry_run)), "own": True}
    response = registry.send("GET", *path)
    if error_code(response) == none_of_its_own:
        return {**registry.get(*path, defaultToGlobal=True), "own": False}
    return {**registry.answer(response), "own": True}


def _say(*, clear: bool, sets: bool, dry_run: bool) -> None:
    if clear:
        say("Deleted; this was the setting.", dry_run)
    elif sets:
        say("Set.", dry_run)
