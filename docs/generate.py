"""Generate the pages of docs/ that come from the code, by `python docs/generate.py`: see PAGES.

tests/project/architecture/test_docs.py compares the files with its output.
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
from backend.observation_settings import ObservationSettings  # noqa: E402
from backend.replication_lab.model.history import Invariant  # noqa: E402
from backend.replication_lab.runs.drills import Drill, drill  # noqa: E402
from backend.replication_lab.scenarios import SCENARIOS  # noqa: E402
from backend.settings import Settings  # noqa: E402
from docs.verbs import ELSEWHERE, REGISTRY_ELSEWHERE, REGISTRY_VERBS, VERBS  # noqa: E402
from tests.support.console import gallery  # noqa: E402

CLI_INTRODUCTION = PROJECT_ROOT / "docs" / "cli-introduction.txt"
GENERATED = "<!-- Written by docs/generate.py; change the code and run it again. -->\n"


def settings_page() -> str:
    """Return the page of all settings: environment variable, default, meaning."""
    prefix = Settings.model_config["env_prefix"]
    lines = [
        "# Settings",
        GENERATED,
        "Later sources take precedence: defaults, `treeline.toml` in the working folder (or the file that",
        "`TREELINE_SETTINGS_FILE` names; keys without the prefix, in lower case), the environment, flags.",
        "",
        "| environment variable | default | meaning |",
        "|---|---|---|",
    ]
    # Otherwise inherited settings come first, but a reader looks for home and database.
    for name, field in sorted(
        Settings.model_fields.items(),
        key=lambda each: sum(each[0] in part.model_fields for part in (ObservationSettings, AccessSettings)),
    ):
        default = field.get_default(call_default_factory=True)
        lines.append(f"| `{prefix}{name.upper()}` | {_default(default)} | {_cell(field.description or '')} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """Return the page of all commands with their arguments and options, exit codes and routes."""
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
    yield from ("## Exit codes", "", "| code | meaning | what to do |", "|---|---|---|")
    for code, (meaning, remedy) in MEANINGS.items():
        yield f"| {code.value} | {_cell(meaning)} | {_cell(remedy)} |"
    yield ""


def _verbs() -> Iterator[str]:
    yield from ("## Routes of each command", "", "Paths are below `/api/v1`.", "")
    yield from _routes_asked(VERBS, ELSEWHERE)
    yield from (
        "",
        "Routes of the schema registries are below `/registries/{cluster}`; `{}` is a version or an id.",
        "",
    )
    yield from _routes_asked(REGISTRY_VERBS, REGISTRY_ELSEWHERE)


def _routes_asked(verbs: Mapping[str, tuple[str, ...]], elsewhere: Mapping[str, str]) -> Iterator[str]:
    yield from ("| route | command |", "|---|---|")
    for route, commands in verbs.items():
        yield f"| `{route}` | {', '.join(f'`{each}`' for each in commands)} |"
    yield from ("", "Routes without a command:", "")
    yield from (f"- `{route}`: {reason}" for route, reason in elsewhere.items())


def events_page() -> str:
    """Return the page of all events with their versions and fields."""
    lines = [
        "# Events",
        GENERATED,
        "All events that the event log may contain. A shipped event is never edited: a new shape is a new "
        "version,",
        "and old versions are upcast to it when they are read (`backend/eventlog/upcasters.py`).",
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
    """Return the page of all metrics of the API process with their labels."""
    lines = [
        "# Metrics",
        GENERATED,
        "The metrics at `/metrics`; access and use are described in [operations](operations.md#metrics). Names",
        "that end in `_total` are counters, all others are gauges.",
        "",
        "| metric | labels | meaning |",
        "|---|---|---|",
    ]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {labels} | {_cell(metric.text)} |")
    return "\n".join(lines) + "\n"


def scenarios_page() -> str:
    """Return the page of the replication lab's scenarios with their results in both modes, for one seed."""
    lines = [
        "# Scenarios of the replication lab",
        GENERATED,
        "Each scenario is a defect of the documents ([how to play them](replication-lab.md)). Steps are those"
        " of the",
        "shortest story, with seed 1; another seed may need more or fewer steps, but violates the same invariant.",
        "",
        "| scenario | defect | faithful: violated, at step | fixed |",
        "|---|---|---|---|",
    ]
    for scenario in SCENARIOS.values():
        told = [_outcome(drill(scenario.name, mode, 1)) for mode in ("faithful", "fixed")]
        lines.append(f"| `{scenario.name}` | {_cell(scenario.title)} | {' | '.join(told)} |")
    lines += ["", "Statements of the documents:", ""]
    lines += [f"- `{each.name}`: {each.document}" for each in SCENARIOS.values()]
    return "\n".join(lines) + "\n"


def routes_page() -> str:
    """Return the page of all REST routes with the permissions, parameters and answers of each."""
    lines = [
        "# REST, route by route",
        GENERATED,
        "Below `/api/v1`; rules common to all routes are in [REST](rest.md), the permissions in",
        "[access](access.md). `/openapi.json` has the same, with every field of every body.",
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
        names = [f"`{each['name']}`{' (required)' if each.get('required') else ''}" for each in asked]
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
    """Return the texts below the fields of an event."""
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
