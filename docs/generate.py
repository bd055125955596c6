"""Writes the pages of docs/ that are made of the code, by `python docs/generate.py`: see PAGES.

tests/architecture/test_docs.py holds the files to what this gives.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT_ROOT))

import typer  # noqa: E402
from pydantic import SecretStr  # noqa: E402

from backend.access_settings import AccessSettings  # noqa: E402
from backend.api.app import create_app  # noqa: E402
from backend.cli import app  # noqa: E402
from backend.commands.shell.examples import examples_of  # noqa: E402
from backend.commands.shell.exit_codes import MEANINGS  # noqa: E402
from backend.domain.base.event import Event  # noqa: E402
from backend.eventlog.registry import domain_registry  # noqa: E402
from backend.metrics import METRICS  # noqa: E402
from backend.replication_lab.drills import Drill, drill  # noqa: E402
from backend.replication_lab.history import Invariant  # noqa: E402
from backend.replication_lab.scenarios import SCENARIOS  # noqa: E402
from backend.settings import Settings  # noqa: E402
from docs.verbs import ELSEWHERE, REGISTRY_ELSEWHERE, REGISTRY_VERBS, VERBS  # noqa: E402
from tests.pages import gallery  # noqa: E402

CLI_INTRODUCTION = PROJECT_ROOT / "docs" / "cli-introduction.txt"
GENERATED = "<!-- Written by docs/generate.py; change the code and run it again. -->\n"


def settings_page() -> str:
    """Every setting: environment variable, default, what it is for."""
    prefix = Settings.model_config["env_prefix"]
    lines = [
        "# Settings",
        GENERATED,
        "Defaults, then `treeline.toml` in the working folder, or the file that `TREELINE_SETTINGS_FILE` names",
        "(names without the prefix, in lower case), then the environment, then flags; the later wins.",
        "",
        "| environment variable | default | meaning |",
        "|---|---|---|",
    ]
    # Those that it inherits come first otherwise, and a reader looks for home and database.
    for name, field in sorted(
        Settings.model_fields.items(), key=lambda each: each[0] in AccessSettings.model_fields
    ):
        default = field.get_default(call_default_factory=True)
        lines.append(f"| `{prefix}{name.upper()}` | {_default(default)} | {_cell(field.description or '')} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """How commands are used, every command with its arguments and options, and which route each asks."""
    lines = ["# Commands", GENERATED, CLI_INTRODUCTION.read_text().rstrip(), "", *_exit_codes()]
    for path, command in _commands(typer.main.get_command(app), "treeline"):
        lines += [f"## `{path}`", "", inspect.cleandoc(command.help or ""), ""]
        shown = [parameter for parameter in command.params if parameter.name != "help"]
        for parameter in shown:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            kind = getattr(parameter, "param_type_name", "option")
            given = parameter.name.upper() if kind == "argument" else names
            lines.append(f"- `{given}`: {getattr(parameter, 'help', None) or ''}{_values(parameter)}")
        lines += [""] if shown else []
        examples = examples_of(path.removeprefix("treeline "))
        lines += ["```sh", *examples, "```", ""] if examples else []
    return "\n".join([*lines, *_verbs()]).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    yield from ("## Exit codes", "", "| code | what it says | what to do |", "|---|---|---|")
    for code, (meaning, remedy) in MEANINGS.items():
        yield f"| {code.value} | {_cell(meaning)} | {_cell(remedy)} |"
    yield ""


def _verbs() -> Iterator[str]:
    yield from ("## Which command asks which route", "", "Below `/api/v1`.", "")
    yield from _routes_asked(VERBS, ELSEWHERE)
    yield from ("", "Of the schema registries, below `/registries/{cluster}`; `{}` is a version or an id.", "")
    yield from _routes_asked(REGISTRY_VERBS, REGISTRY_ELSEWHERE)


def _routes_asked(verbs: Mapping[str, tuple[str, ...]], elsewhere: Mapping[str, str]) -> Iterator[str]:
    yield from ("| route | command |", "|---|---|")
    for route, commands in verbs.items():
        yield f"| `{route}` | {', '.join(f'`{each}`' for each in commands)} |"
    yield from ("", "No command asks these:", "")
    yield from (f"- `{route}`: {reason}" for route, reason in elsewhere.items())


def events_page() -> str:
    """Every event with its version and fields."""
    lines = [
        "# Events",
        GENERATED,
        "What the event log may hold. A shipped event is never edited: a new shape is a new version, and the old",
        "one is raised to it when it is read (`backend/eventlog/upcasters.py`).",
        "",
    ]
    for name, cls in sorted(domain_registry().classes.items()):
        lines += [f"## {name}, version {cls.schema_version}", "", inspect.cleandoc(cls.__doc__ or ""), ""]
        meanings = _field_docstrings(cls)
        fields: tuple[Any, ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
        lines += [
            f"- `{f.name}` ({f.type}){': ' + meanings[f.name] if f.name in meanings else ''}" for f in fields
        ]
        lines += [""] if fields else []
    return "\n".join(lines).rstrip() + "\n"


def metrics_page() -> str:
    """Every metric of the API process with its labels."""
    lines = [
        "# Metrics",
        GENERATED,
        "What `/metrics` tells; who may ask, and what to do with it: [operations](operations.md#metrics). Names",
        "that end in `_total` count, all others are gauges.",
        "",
        "| metric | labels | what it says |",
        "|---|---|---|",
    ]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {labels} | {_cell(metric.text)} |")
    return "\n".join(lines) + "\n"


def scenarios_page() -> str:
    """Every scenario of the replication lab with what it comes to in both modes, played with one seed."""
    lines = [
        "# Scenarios of the replication lab",
        GENERATED,
        "Each is a defect of the documents ([how to play them](replication-lab.md)). Steps are those of the",
        "shortest story, with seed 1; another seed may need some more or less, and violates the same.",
        "",
        "| scenario | what goes wrong | faithful: violated, at step | fixed |",
        "|---|---|---|---|",
    ]
    for scenario in SCENARIOS.values():
        told = [_outcome(drill(scenario.name, mode, 1)) for mode in ("faithful", "fixed")]
        lines.append(f"| `{scenario.name}` | {_cell(scenario.title)} | {' | '.join(told)} |")
    lines += ["", "What the documents say to it:", ""]
    lines += [f"- `{each.name}`: {each.document}" for each in SCENARIOS.values()]
    return "\n".join(lines) + "\n"


def routes_page() -> str:
    """Every route of the REST API with what it needs, takes and answers."""
    lines = [
        "# REST, route by route",
        GENERATED,
        "Below `/api/v1`; the rules that hold for all of them are in [REST](rest.md), what each need is in",
        "[access](access.md). The same, with every field of every body, is at `/openapi.json`.",
    ]
    api = create_app(Settings()).openapi()
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append((method.upper(), path.removeprefix("/api/v1"), operation))
    for tag, routes in sorted(by_tag.items()):
        lines += ["", f"## {tag.capitalize()}"]
        for method, path, operation in routes:
            lines += ["", f"### `{method} {path}`", "", inspect.cleandoc(operation.get("description") or "")]
            lines += ["", *_route_facts(operation)]
    return "\n".join(lines) + "\n"


def _route_facts(operation: dict[str, Any]) -> Iterator[str]:
    if need := operation.get("x-treeline-needs"):
        yield f"- needs `{need}`"
    for place, title in (("query", "query"), ("header", "headers")):
        asked = [each for each in operation.get("parameters", ()) if each["in"] == place]
        names = [f"`{each['name']}`{' (needed)' if each.get('required') else ''}" for each in asked]
        if names:
            yield f"- {title}: {', '.join(names)}"
    content = operation.get("requestBody", {}).get("content", {})
    for kind, body in content.items():
        name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
        yield f"- body: `{kind}`{f', {name}' if name else ''}"
    yield f"- answers: {', '.join(sorted(operation['responses']))}"


def _outcome(played: Drill) -> str:
    if played.violated is None:
        return "holds"
    when = (
        "20 s after the last fault" if played.violated is Invariant.NEVER_SETTLES else str(played.moments[-1].step)
    )
    return f"`{played.violated}`, {when}"


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "events.md": events_page,
    "metrics.md": metrics_page,
    "rest-routes.md": routes_page,
    "console-gallery.md": gallery.text,
    "replication-scenarios.md": scenarios_page,
}


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None or getattr(command, "invoke_without_command", False):
        yield path, command
    for name, child in sorted((children or {}).items()):
        yield from _commands(child, f"{path} {name}")


def _values(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    choices = kind if inspect.isclass(kind) and issubclass(kind, Enum) else ()
    parts = [f"one of {', '.join(choice.value for choice in choices)}"] if choices else []
    default = parameter.default
    if default is not None and not callable(default) and default not in ("", False, ()):
        parts.append(f"default {_default(default)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, SecretStr):
        return "`***`"
    text = str(getattr(value, "value", value))
    return f"`{text.replace(str(PROJECT_ROOT), '<project>')}`"


def _field_docstrings(cls: type[Event]) -> dict[str, str]:
    """The texts that stand below the fields."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = re.sub(r"\s+", " ", ast.literal_eval(text.value)).strip()
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for page, write in PAGES.items():
        (PROJECT_ROOT / "docs" / page).write_text(write())
