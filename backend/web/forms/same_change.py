"""The change of a form by other means: a YAML file, the command line, curl."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

_LEVELS = ("tenants", "instances", "environments", "streams")


@dataclass(frozen=True)
class SameChange:
    """The same change by other means; `yaml` and `command` are None if a file or the program cannot express it."""

    yaml: str | None
    command: str | None
    curl: str


def declared(place: Sequence[str], content: Mapping[str, Any], curl: str, options: str = "") -> SameChange:
    """Return a resource within a tenant, created or changed by a file.

    `place`: tenant, instance, ...; `options`: further options for applying the file.
    """
    file = f"{place[-1]}.yaml"
    return SameChange(yaml_of(place, content), f"treeline diff -f {file}\ntreeline apply -f {file}{options}", curl)


def file_of(section: str, name: str, content: Mapping[str, Any], curl: str) -> SameChange:
    """Return a resource of the estate, created or changed by a file."""
    document = {section: {name: dict(content)}}
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return SameChange(text.rstrip(), f"treeline diff -f {name}.yaml\ntreeline apply -f {name}.yaml", curl)


def yaml_of(place: Sequence[str], content: Mapping[str, Any]) -> str:
    """Return the file's text."""
    document: Any = dict(content)
    for level, name in zip(reversed(_LEVELS[: len(place)]), reversed(place), strict=True):
        document = {level: {name: document}}
    return yaml_document(document)


def yaml_document(document: Mapping[str, Any]) -> str:
    """Return a file's text from its sections."""
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text.rstrip()


def api_path(place: Sequence[str], collection: bool = False) -> str:
    """Return the API's path of a resource within a tenant, or of its list."""
    parts = [part for pair in zip(_LEVELS, place, strict=False) for part in pair]
    return "/api/v1/" + "/".join(parts[:-1] if collection else parts)


def curl(method: str, path: str, body: Any = None, *, version: int | None = None) -> str:
    """Return a call of the API; `version`: of the resource as seen, so that nothing newer is overwritten."""
    lines = [f'curl -X {method} "$TREELINE_URL{path}"', '-H "Authorization: Bearer $TREELINE_TOKEN"']
    if version is not None:
        tag = f'"{version}"'
        lines.append(f"-H 'If-Match: {tag}'")
    if body is not None:
        lines.append('-H "Content-Type: application/json"')
        lines.append(f"-d {shlex.quote(json.dumps(body))}")
    return " \\\n  ".join(lines)
