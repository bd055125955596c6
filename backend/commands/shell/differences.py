"""Comparison of a declared file with the control plane, and application of the differences.

Streams and applications, of which there may be thousands, are read as lists, and streams are declared many at a
time; all other resources are handled one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from backend.commands.shell import kinds
from backend.commands.shell.declared import GRANTED, Declared, full_names
from backend.commands.shell.rest import answer, fail, pages
from backend.domain.topics.stream_settings import CLUSTER_DEFAULT
from backend.domain.topics.topic_settings import canonical, text_of
from backend.domain.tree.tree import clusters_of

if TYPE_CHECKING:
    import httpx2

AT_ONCE = 100
"""Maximum number of streams that one request declares."""
# Belongs to the request, not to the resource: the API does not show it.
_ONLY_SENT = frozenset({"accept_offline"})
_MASK = "***"
REPLICAS = ("replication_factor", "min_insync_replicas")
_LISTED = (kinds.STREAM, kinds.APPLICATION)
# From this many resources of one environment on, its whole list is read.
_WORTH_A_LIST = 10


@dataclass(frozen=True)
class Difference:
    """Difference between file and control plane: `changes` field -> (current, wanted); `exists`: not missing."""

    declared: Declared
    exists: bool
    etag: str | None = None
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def action(self) -> str:
        """Return create, change or keep."""
        if not self.exists:
            return "create"
        return "change" if self.changes else "keep"


class Present:
    """The control plane's state of the resources that a file declares."""

    def __init__(self, client: httpx2.Client, declared: Sequence[Declared]) -> None:
        self._client = client
        self._many = Counter((each.kind, each.within) for each in declared if each.kind in _LISTED)
        self._lists: dict[tuple[kinds.Kind, str], dict[str, Any]] = {}

    def compare(self, declared: Declared) -> Difference:
        """Compare one declared resource with the control plane."""
        if self._many[declared.kind, declared.within] > _WORTH_A_LIST:
            row = self._listed(declared).get(declared.name)
            if row is None:
                return Difference(declared, exists=False)
            if not _changes(declared, row):
                return Difference(declared, exists=True)
        # Read individually, since a change needs the ETag, which lists do not have.
        response = self._client.get(declared.kind.path(declared.place))
        if response.status_code == 404:
            return Difference(declared, exists=False)
        return Difference(declared, True, response.headers.get("ETag"), _changes(declared, answer(response)))

    def _listed(self, declared: Declared) -> dict[str, Any]:
        """Return the resources of the kind beside this one, by name; empty if their parent does not exist."""
        key = declared.kind, declared.within
        if key not in self._lists:
            path = declared.kind.collection(declared.within)
            there = self._client.get(path, params={"limit": 1}).status_code != 404
            rows = pages(self._client, path, {"limit": 1000}) if there else []
            self._lists[key] = {row["name"]: row for row in rows}
        return self._lists[key]


def _changes(declared: Declared, present: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    if declared.kind is kinds.APPLICATION:
        return _changes_of_application(declared, present)
    if declared.kind is kinds.WEBHOOK and isinstance(events := declared.body.get("events"), list):
        # A set, which is shown sorted.
        declared = replace(declared, body={**declared.body, "events": sorted(events, key=str)})
    if declared.kind is kinds.STREAM and isinstance(config := declared.body.get("config"), dict):
        # In a file, numbers and booleans are written without quotes; the API returns them as Kafka writes them.
        wanted_config = canonical({name: text_of(value) for name, value in config.items()})
        declared = replace(declared, body={**declared.body, "config": wanted_config})
    # An unset value is null in an answer; a file may spell it out or leave it out.
    shown = {name: CLUSTER_DEFAULT if present.get(name) is None else present[name] for name in REPLICAS}
    if declared.kind is kinds.STREAM:
        present = {**present, **shown}
    elif declared.kind is kinds.CLUSTER and isinstance(defaults := declared.body.get("defaults"), dict):
        declared = replace(declared, body={**declared.body, "defaults": {**dict.fromkeys(REPLICAS), **defaults}})
        present = {**present, "defaults": present.get("defaults_set")}
    return {
        name: (present.get(name), wanted)
        for name, wanted in declared.body.items()
        if name not in _ONLY_SENT and not _same(present.get(name), wanted)
    }


def _changes_of_application(declared: Declared, present: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Compare lists as sets, and streams by their full names."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, wanted in declared.body.items():
        there = present.get(name)
        if name in GRANTED:
            there = sorted(each["stream"] for each in there or ())
            wanted = sorted(full_names(declared.place, wanted))
        elif name == "groups":
            wanted = sorted(set(wanted))
        if there != wanted:
            found[name] = (there, wanted)
    return found


def _same(present: Any, wanted: Any) -> bool:
    """Return whether a field is as wanted; a masked secret counts as unchanged, since it cannot be compared."""
    if isinstance(present, dict) and isinstance(wanted, dict) and _MASK in present.values():
        shown = {name: value for name, value in present.items() if value != _MASK}
        asked = {name: value for name, value in wanted.items() if present.get(name) != _MASK}
        return shown == asked and present.keys() == wanted.keys()
    return bool(present == wanted)


@dataclass(frozen=True)
class Terms:
    """Options for applying a file.

    `confirmed`: streams to change although Kafka then removes some of their records.
    """

    dry_run: bool
    confirmed: frozenset[str] = frozenset()


def carry_out(client: httpx2.Client, difference: Difference, terms: Terms) -> None:
    """Create or change one resource; exits if the control plane refuses."""
    declared, place = difference.declared, difference.declared.place
    params: dict[str, Any] = {"dry_run": "true"} if terms.dry_run else {}
    if declared.kind is kinds.STREAM and difference.exists and place in terms.confirmed:
        params["confirm"] = place
    # The compared version is the one that is changed: a concurrent change leads to a refusal instead of being
    # undone.
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


def declare_streams(client: httpx2.Client, missing: Sequence[Declared], *, dry_run: bool) -> None:
    """Declare up to `AT_ONCE` streams of one environment, all or none; exits if the control plane refuses."""
    if not missing:
        return
    path = f"{kinds.STREAM.collection(missing[0].within)}:declare"
    body = {"streams": [{"name": each.name, **each.body} for each in missing]}
    params = {"dry_run": "true"} if dry_run else {}

    def called(pointer: str) -> str:
        _, _, number, *rest = pointer.split("/") if pointer.startswith("/streams/") else ("", "", "")
        return "/".join([missing[int(number)].place, *rest]) if number.isdecimal() else pointer

    answer(client.post(path, json=body, params=params), called)


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
