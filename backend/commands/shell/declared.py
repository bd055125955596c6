"""Resources that a YAML file declares.

The file has the sections of an estate file, with the REST API's fields:

    clusters: {cluster-6: {bootstrap_servers: "10.0.0.6:9092", zone: az1, ...}}
    primary: cluster-1
    tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-6}]}
    tenants: {acme: {instances: {retail: {tree: main, environments: {prod: {margin_seconds: 60,
      streams: {orders: {partitions: 4}},
      applications: {billing: {consumes: [orders, globex/shop/prod/items]}}}}}}}}
    users: {ada: {role: viewer, tenants: {acme: owner}}}
    webhooks: {ops: {url: "https://receiver.example/treeline", events: [switch, gap, quarantine]}}

Nothing is ever deleted because a file does not name it; but an application's lists are complete: they are all that
it may access. The file does not decide whether access is granted, so that is no difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.commands.shell import kinds
from backend.commands.shell.kinds import Kind
from backend.commands.shell.rest import fail
from backend.domain.names.formats import clash_key

_SECTIONS = ("clusters", "primary", "tree", "tenants", "users", "webhooks")
GRANTED = ("produces", "consumes")
_LISTS = ("groups", *GRANTED)


@dataclass(frozen=True)
class Declared:
    """One resource as the file declares it."""

    kind: Kind
    place: str
    body: dict[str, Any]

    @property
    def within(self) -> str:
        """Return the place of its parent."""
        return self.place.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Return its own name, the last part of its place."""
        return self.place.rpartition("/")[2]


def read_file(path: Path) -> list[Declared]:
    """Return the resources of a file ("-": standard input) in the order of their creation; exits with 2."""
    from backend.yaml_files import YamlInvalid, load_yaml

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        document = load_yaml(text)
    except (OSError, UnicodeDecodeError, YamlInvalid) as error:
        fail(f"{path} cannot be read: {error}", 2)
    sections = _mapping(document, "the file")
    unknown = sorted(set(sections) - set(_SECTIONS))
    if unknown:
        fail(f"{path}: unknown section {unknown[0]!r}; there are: {', '.join(_SECTIONS)}.", 2)
    # Applications come after all streams, which may belong to other tenants.
    tenants = sorted(_tenants(sections), key=lambda declared: declared.kind is kinds.APPLICATION)
    _refuse_clashes(tenants)
    return [*_clusters(sections), *_tree(sections), *tenants, *_estate_wide(sections)]


def _clusters(sections: dict[str, Any]) -> Iterator[Declared]:
    for name, body in _mapping(sections.get("clusters"), "clusters").items():
        yield Declared(kinds.CLUSTER, name, _mapping(body, f"clusters.{name}"))


def _estate_wide(sections: dict[str, Any]) -> Iterator[Declared]:
    """Yield users and webhooks."""
    for kind in (kinds.USER, kinds.WEBHOOK):
        for name, body in _mapping(sections.get(kind.plural), kind.plural).items():
            yield Declared(kind, name, _mapping(body, f"{kind.plural}.{name}"))


def _tree(sections: dict[str, Any]) -> Iterator[Declared]:
    if "tree" in sections:
        body = {"root": sections["tree"]}
        if sections.get("primary") is not None:
            body["primary_cluster"] = sections["primary"]
        yield Declared(kinds.TREE, "main", body)
    elif "primary" in sections:
        fail("primary: give the tree as well; both are set together.", 2)


def _tenants(sections: dict[str, Any]) -> Iterator[Declared]:
    levels = ((kinds.TENANT, "instances"), (kinds.INSTANCE, "environments"), (kinds.ENVIRONMENT, "streams"))

    def below(names: dict[str, Any], prefix: str, where: str, depth: int) -> Iterator[Declared]:
        for name, content in names.items():
            place, here = f"{prefix}{name}", f"{where}.{name}"
            body = _mapping(content, here)
            if depth == len(levels):
                yield Declared(kinds.STREAM, place, body)
                continue
            kind, children = levels[depth]
            inner = _mapping(body.pop(children, None), f"{here}.{children}")
            applications = _applications(body, place, here) if kind is kinds.ENVIRONMENT else []
            yield Declared(kind, place, body)
            yield from below(inner, f"{place}/", f"{here}.{children}", depth + 1)
            yield from applications

    return below(_mapping(sections.get("tenants"), "tenants"), "", "tenants", 0)


def _refuse_clashes(tenants: Iterable[Declared]) -> None:
    """Refuse two streams of one environment whose topics collide on every cluster.

    A dry run, which creates neither, would not detect the collision.
    """
    found: dict[tuple[str, str], Declared] = {}
    for each in tenants:
        if each.kind is kinds.STREAM:
            other = found.setdefault((each.within, clash_key(each.name)), each)
            if other is not each:
                fail(
                    f"{other.place} and {each.place} cannot both exist: "
                    "Kafka does not distinguish '.' from '_' in topic names.",
                    2,
                )


def _applications(environment: dict[str, Any], place: str, where: str) -> list[Declared]:
    """Remove an environment's applications from its content and return them."""
    section = f"{where}.applications"
    found = []
    for name, content in _mapping(environment.pop("applications", None), section).items():
        body = _mapping(content, f"{section}.{name}")
        for names in _LISTS:
            if body.get(names, ()) is None:
                del body[names]
            elif not _is_texts(body.get(names, [])):
                fail(f"{section}.{name}.{names}: expected a list of names here.", 2)
        found.append(Declared(kinds.APPLICATION, f"{place}/{name}", body))
    return found


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def streams_of(declared: Declared) -> set[str]:
    """Return the full names of the streams that an application names; empty for other resources."""
    if declared.kind is not kinds.APPLICATION:
        return set()
    return {name for lists in GRANTED for name in full_names(declared.place, declared.body.get(lists) or ())}


def full_names(place: str, streams: Iterable[str]) -> set[str]:
    """Return full names of streams that an application at a place names; short ones are of its environment."""
    return {name if "/" in name else f"{place.rpartition('/')[0]}/{name}" for name in streams}


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        fail(f"{where}: expected names with their content here (name: {{...}}).", 2)
    return dict(value)
