"""Kinds of resources on the command line, and their paths in the REST API.

A resource is named by its place: `cluster-1`, `acme`, `acme/retail`, `acme/retail/prod`,
`acme/retail/prod/orders`. Grants have no names: they are listed by the tenant that owns the streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from backend.commands.shell.rest import fail


@dataclass(frozen=True)
class Kind:
    """Kind of resource.

    `collections` are the path's segments, with names between them; `columns` those of a table.
    """

    name: str
    plural: str
    collections: tuple[str, ...]
    columns: tuple[str, ...]

    def collection(self, place: str) -> str:
        """Return the path of the list below a place; exits with 2 if the place has too few or too many parts."""
        return self._path(_parts(place), len(self.collections) - 1)

    def path(self, place: str) -> str:
        """Return the path of one resource."""
        return self._path(_parts(place), len(self.collections))

    def _path(self, names: list[str], wanted: int) -> str:
        if len(names) != wanted:
            form = "/".join(part.rstrip("s").upper() for part in self.collections[:wanted]) or "no name"
            given = "/".join(names) or "nothing"
            fail(f"{self.name}: name its place as {form}, not {given}.", 2)
        segments: list[str] = []
        for number, collection in enumerate(self.collections):
            segments.append(collection)
            if number < len(names):
                segments.append(quote(names[number], safe=""))
        return "/" + "/".join(segments)


_TENANTS = ("tenants", "instances", "environments", "streams")
CLUSTER = Kind(
    "cluster", "clusters", ("clusters",), ("name", "number", "state", "zone", "bootstrap_servers", "reason")
)
TENANT = Kind("tenant", "tenants", _TENANTS[:1], ("name",))
INSTANCE = Kind("instance", "instances", _TENANTS[:2], ("name", "tenant", "tree"))
ENVIRONMENT = Kind(
    "environment",
    "environments",
    _TENANTS[:3],
    ("name", "tenant", "instance", "margin_seconds", "offset_mode", "record_name_subjects"),
)
STREAM = Kind("stream", "streams", _TENANTS, ("stream", "partitions", "replication_factor", "applied"))
APPLICATION = Kind(
    "application",
    "applications",
    (*_TENANTS[:3], "applications"),
    ("application", "produces", "consumes", "credentials", "applied"),
)
GRANT = Kind(
    "grant",
    "grants",
    ("tenants", "grants"),
    ("application", "operation", "stream", "state", "requested_by", "decided_by", "reason"),
)
USER = Kind("user", "users", ("users",), ("name", "role", "tenants", "disabled", "has_password"))
WEBHOOK = Kind("webhook", "webhooks", ("webhooks",), ("name", "url", "events", "enabled", "secret_since"))
TREE = Kind("tree", "trees", ("trees",), ("name", "primary_cluster", "coverage", "root"))
SWITCH = Kind(
    "switch",
    "switches",
    ("switches",),
    ("id", "number", "from", "to", "mode", "state", "generation", "environments", "reason"),
)
PLACEMENT = Kind("placement", "placements", ("placements",), ("id", "cluster", "state", "summary", "reason"))
OPERATION = Kind("operation", "operations", ("operations",), ("id", "state", "progress", "result", "problem"))
DISTRIBUTORS, OFFSETS = "distributors", "offsets"
DISTRIBUTOR_COLUMNS = ("cluster", "level", "target", "state", "lag_records", "records_per_second", "reason")

_KINDS: Mapping[str, Kind] = {
    word: kind
    for kind in (
        CLUSTER,
        TREE,
        TENANT,
        INSTANCE,
        ENVIRONMENT,
        STREAM,
        APPLICATION,
        GRANT,
        USER,
        WEBHOOK,
        SWITCH,
        PLACEMENT,
        OPERATION,
    )
    for word in ((kind.name,) if kind is OPERATION else (kind.name, kind.plural))
}
"""Kinds by word. Operations have no list: the answer to the request that started one names it."""
WORDS = (*sorted(_KINDS), DISTRIBUTORS, OFFSETS)
KNOWN = ", ".join(WORDS)
DELETABLE = (CLUSTER, STREAM, APPLICATION, WEBHOOK)
"""Kinds that `delete` accepts."""


def kind_of(word: str) -> Kind:
    """Return the kind that a word names, singular or plural; exits with 2 if there is none."""
    if word not in _KINDS:
        fail(f"Unknown kind {word!r}; there are: {KNOWN}.", 2)
    return _KINDS[word]


def _parts(place: str) -> list[str]:
    return place.split("/") if place else []
