"""What a YAML file declares, thing by thing, and how that differs from what the control plane has.

The file has the sections of an estate file, with the REST API's fields:

    clusters: {cluster-6: {bootstrap_servers: "10.0.0.6:9092", zone: az1, ...}}
    primary: cluster-1
    tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-6}]}
    tenants: {acme: {instances: {retail: {tree: main, environments: {prod: {margin_seconds: 60,
      streams: {orders: {partitions: 4}},
      applications: {billing: {consumes: [orders, globex/shop/prod/items]}}}}}}}}
    users: {ada: {role: viewer, tenants: {acme: owner}}}

Nothing is ever deleted because a file does not name it; but an application's lists are all that it may do. Whether
its access is granted is not the file's to say, and no difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.commands import kinds
from backend.commands.kinds import Kind
from backend.commands.rest import answer, fail
from backend.domain.tree import clusters_of

if TYPE_CHECKING:
    import httpx2

_SECTIONS = ("clusters", "primary", "tree", "tenants", "users")
# Belongs to the request, not to the thing: it is not in what the API shows.
_ONLY_SENT = frozenset({"accept_offline"})
_MASK = "***"
_GRANTED = ("produces", "consumes")
_LISTS = ("groups", *_GRANTED)


@dataclass(frozen=True)
class Declared:
    """One thing as the file wants it."""

    kind: Kind
    place: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """How the control plane differs: `changes` field -> (present, wanted); `exists` False: it is missing."""

    declared: Declared
    exists: bool
    etag: str | None = None
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def action(self) -> str:
        """create, change or keep."""
        if not self.exists:
            return "create"
        return "change" if self.changes else "keep"


def read_file(path: Path) -> list[Declared]:
    """The things of a file ("-": standard input) in the order in which they can be made; exits with 2."""
    import yaml

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        fail(f"{path} cannot be read: {error}", 2)
    sections = _mapping(document, "the file")
    unknown = sorted(set(sections) - set(_SECTIONS))
    if unknown:
        fail(f"{path}: unknown section {unknown[0]!r}; there are: {', '.join(_SECTIONS)}.", 2)
    # Applications come when all streams are there, which may be of other tenants.
    tenants = sorted(_tenants(sections), key=lambda declared: declared.kind is kinds.APPLICATION)
    return [*_clusters(sections), *_tree(sections), *tenants, *_users(sections)]


def _clusters(sections: dict[str, Any]) -> Iterator[Declared]:
    for name, body in _mapping(sections.get("clusters"), "clusters").items():
        yield Declared(kinds.CLUSTER, name, _mapping(body, f"clusters.{name}"))


def _users(sections: dict[str, Any]) -> Iterator[Declared]:
    for name, body in _mapping(sections.get("users"), "users").items():
        yield Declared(kinds.USER, name, _mapping(body, f"users.{name}"))


def _tree(sections: dict[str, Any]) -> Iterator[Declared]:
    if "tree" in sections:
        body = {"root": sections["tree"]}
        if sections.get("primary") is not None:
            body["primary_cluster"] = sections["primary"]
        yield Declared(kinds.TREE, "main", body)
    elif "primary" in sections:
        fail("primary: give the tree as well, the primary is set with it.", 2)


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


def _applications(environment: dict[str, Any], place: str, where: str) -> list[Declared]:
    """Those of an environment, taken out of its content."""
    section = f"{where}.applications"
    found = []
    for name, content in _mapping(environment.pop("applications", None), section).items():
        body = _mapping(content, f"{section}.{name}")
        for names in _LISTS:
            if body.get(names, ()) is None:
                del body[names]
            elif not _is_texts(body.get(names, [])):
                fail(f"{section}.{name}.{names}: a list of names is wanted here.", 2)
        found.append(Declared(kinds.APPLICATION, f"{place}/{name}", body))
    return found


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def streams_of(declared: Declared) -> set[str]:
    """The full names of the streams that an application names; none of other things."""
    if declared.kind is not kinds.APPLICATION:
        return set()
    return {name for lists in _GRANTED for name in _full(declared.place, declared.body.get(lists) or ())}


def _full(place: str, streams: Iterable[str]) -> set[str]:
    """Full names of streams that the application of a place names; short ones are of its environment."""
    return {name if "/" in name else f"{place.rpartition('/')[0]}/{name}" for name in streams}


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        fail(f"{where}: names with their content are wanted here (name: {{...}}).", 2)
    return dict(value)


def compare(client: httpx2.Client, declared: Declared) -> Difference:
    """Ask for one thing and hold it against what is declared."""
    response = client.get(declared.kind.path(declared.place))
    if response.status_code == 404:
        return Difference(declared, exists=False)
    present = answer(response)
    changes = {
        name: (present.get(name), wanted)
        for name, wanted in declared.body.items()
        if name not in _ONLY_SENT and not _same(present.get(name), wanted)
    }
    if declared.kind is kinds.APPLICATION:
        changes = _changes_of_application(declared, present)
    return Difference(declared, True, response.headers.get("ETag"), changes)


def _changes_of_application(declared: Declared, present: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Lists are compared as sets, streams by their full names."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, wanted in declared.body.items():
        there = present.get(name)
        if name in _GRANTED:
            there = sorted(each["stream"] for each in there or ())
            wanted = sorted(_full(declared.place, wanted))
        elif name == "groups":
            wanted = sorted(set(wanted))
        if there != wanted:
            found[name] = (there, wanted)
    return found


def _same(present: Any, wanted: Any) -> bool:
    """Whether a field is as wanted; a masked secret is taken for unchanged, since nobody can see it."""
    if isinstance(present, dict) and isinstance(wanted, dict) and _MASK in present.values():
        shown = {name: value for name, value in present.items() if value != _MASK}
        asked = {name: value for name, value in wanted.items() if present.get(name) != _MASK}
        return shown == asked and present.keys() == wanted.keys()
    return bool(present == wanted)


def carry_out(client: httpx2.Client, difference: Difference, *, dry_run: bool) -> None:
    """Create or change one thing; exits if the control plane refuses."""
    declared, place = difference.declared, difference.declared.place
    params: dict[str, Any] = {"dry_run": "true"} if dry_run else {}
    # What was compared is what is changed: if somebody was faster, this is refused instead of undoing his work.
    headers = {"If-Match": difference.etag} if difference.etag else {}
    if declared.kind is kinds.TREE:
        _carry_out_tree(client, difference, params, headers)
    elif not difference.exists:
        parent, _, name = place.rpartition("/")
        path = declared.kind.collection(parent)
        answer(client.post(path, json={"name": name, **declared.body}, params=params))
    elif declared.kind in (kinds.TENANT, kinds.INSTANCE):
        fail(f"{declared.kind.name} {place}: {', '.join(difference.changes)} cannot be changed.")
    else:
        body = {name: wanted for name, (_, wanted) in difference.changes.items()}
        body |= {name: value for name, value in declared.body.items() if name in _ONLY_SENT}
        answer(client.patch(declared.kind.path(place), json=body, params=params, headers=headers))


def _carry_out_tree(
    client: httpx2.Client, difference: Difference, params: dict[str, Any], headers: dict[str, str]
) -> None:
    body, changes = difference.declared.body, difference.changes
    present, primary = changes.get("primary_cluster", (None, body.get("primary_cluster")))
    moved = present is not None and present in clusters_of(body["root"])
    if "root" in changes or not moved:
        named = {} if primary is None or moved else {"primary": primary}
        answer(client.put("/trees/main", json=body["root"], params={**params, **named}, headers=headers))
        headers = {}
    if moved:
        answer(client.put("/trees/main/primary", json={"cluster": primary}, params=params, headers=headers))
