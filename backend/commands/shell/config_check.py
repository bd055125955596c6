"""`treeline config check`: validate settings and contexts before anything is started."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from backend.commands.shell import contexts
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.locations import SETTINGS_FILE_VARIABLE, settings_file
from backend.settings import Settings

COLUMNS = ("where", "name", "problem")
_NOT_SETTINGS = frozenset({"TREELINE_NEW_PASSWORD", SETTINGS_FILE_VARIABLE})
"""Environment variables that are read, but are no settings."""

program = typer.Typer(no_args_is_help=True, help="Settings, as listed in docs/settings.md.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(program, name="config")


@program.command()
def check(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Check the settings (environment and treeline.toml) and the file of contexts, without contacting anything.

    Unknown names are reported, too, as they would have no effect. Exit code 2: something is wrong.
    """
    problems = [*_settings(), *_contexts()]
    show({"ok": not problems, "problems": problems}, Form.JSON if as_json else form, COLUMNS, problems)
    if problems:
        raise typer.Exit(Code.BAD_INPUT)
    typer.echo("Settings and contexts are valid.", err=True)


def _settings() -> Iterator[dict[str, Any]]:
    prefix, file = str(Settings.model_config["env_prefix"]), str(settings_file())
    known = {f"{prefix}{name.upper()}" for name in Settings.model_fields}
    for name in sorted(os.environ):
        if name.upper().startswith(prefix) and name.upper() not in known | _NOT_SETTINGS:
            yield _problem("environment", name, _unknown(name, known))
    try:
        content = tomllib.loads(Path(file).read_text(encoding="utf-8")) if Path(file).is_file() else {}
    except (OSError, ValueError) as error:
        yield _problem(file, "", f"is not valid TOML: {error}")
        return
    for name in content.keys() - Settings.model_fields.keys():
        yield _problem(file, name, _unknown(name, set(Settings.model_fields)))
    try:
        Settings()
    except ValidationError as wrong:
        for each in wrong.errors(include_input=False, include_url=False):
            name = str(each["loc"][0]) if each["loc"] else ""
            from_environment = f"{prefix}{name.upper()}" in {given.upper() for given in os.environ}
            where, shown = ("environment", f"{prefix}{name.upper()}") if from_environment else (file, name)
            yield _problem(where, shown, each["msg"])


def _contexts() -> Iterator[dict[str, Any]]:
    try:
        found = contexts.read_contexts()
    except contexts.ContextInvalid as error:
        yield _problem(str(contexts.contexts_file()), "", str(error))
        return
    for name, each in found.known.items():
        try:
            contexts.token_of(name, each)
        except contexts.ContextInvalid as error:
            yield _problem(str(contexts.contexts_file()), name, str(error))


def _unknown(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1)
    return "unknown setting" + (f"; did you mean {near[0]}?" if near else "; docs/settings.md lists them")


def _problem(where: str, name: str, problem: str) -> dict[str, Any]:
    return {"where": where, "name": name, "problem": problem}
