"""How what a file declares differs from what the control plane has, and carrying it out.

Streams and applications, of which there may be thousands, are asked for by the list, and streams are declared many
at a time; all else goes thing by thing.
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
"""Streams that one request declares."""
# Belongs to the request, not to the thing: it is not in what the API shows.
_ONLY_SENT = frozenset({"accept_offline"})
_MASK = "***"
REPLICAS = ("replication_factor", "min_insync_replicas")
_LISTED = (kinds.STREAM, kinds.APPLICATION)
# So many things of one environment are worth its whole list.
_WORTH_A_LIST = 10


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


class Present:
    """What the control plane has of the things that a file declares."""

    def __init__(self, client: httpx2.Client, declared: Sequence[Declared]) -> None:
        self._client = client
        self._many = Counter((each.kind, each.within) for each in declared if each.kind in _LISTED)
        self._lists: dict[tuple[kinds.Kind, str], dict[str, Any]] = {}

    def compare(self, declared: Declared) -> Difference:
        """Hold one thing against what is declared."""
        if self._many[declared.kind, declared.within] > _WORTH_A_LIST:
            row = self._listed(declared).get(declared.name)
            if row is None:
                return Difference(declared, exists=False)
            if not _changes(declared, row):
                return Difference(declared, exists=True)
        # By itself, since what is to be changed is changed by its ETag, which no list has.
        response = self._client.get(declared.kind.path(declared.place))
        if response.status_code == 404:
            return Difference(declared, exists=False)
        return Difference(declared, True, response.headers.get("ETag"), _changes(declared, answer(response)))

    def _listed(self, declared: Declared) -> dict[str, Any]:
        """The things of the kind that are beside this one, by name; none if there is no such place."""
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
        # In a file numbers and true or false stand without quotes; answers have them as Kafka writes them.
        wanted_config = canonical({name: text_of(value) for name, value in config.items()})
        declared = replace(declared, body={**declared.body, "config": wanted_config})
    # What is not set is null in an answer; in a file it may be said in words, or left out.
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
    """Lists are compared as sets, streams by their full names."""
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
    """Whether a field is as wanted; a masked secret is taken for unchanged, since nobody can see it."""
    if isinstance(present, dict) and isinstance(wanted, dict) and _MASK in present.values():
        shown = {name: value for name, value in present.items() if value != _MASK}
        asked = {name: value for name, value in wanted.items() if present.get(name) != _MASK}
        return shown == asked and present.keys() == wanted.keys()
    return bool(present == wanted)


@dataclass(frozen=True)
class Terms:
    """How a file is applied. `confirmed`: streams that are changed although Kafka then removes records of them."""

    dry_run: bool
    confirmed: frozenset[str] = frozenset()


def carry_out(client: httpx2.Client, difference: Difference, terms: Terms) -> None:
    """Create or change one thing; exits if the control plane refuses."""
    declared, place = difference.declared, difference.declared.place
    params: dict[str, Any] = {"dry_run": "true"} if terms.dry_run else {}
    if declared.kind is kinds.STREAM and difference.exists and place in terms.confirmed:
        params["confirm"] = place
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


def declare_streams(client: httpx2.Client, missing: Sequence[Declared], *, dry_run: bool) -> None:
    """Declare streams of one environment, at most `AT_ONCE`, all or none; exits if the control plane refuses."""
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
