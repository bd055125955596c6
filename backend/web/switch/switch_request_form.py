"""Form of a switch plan: its choices, and the request that its fields make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.names.names import is_name
from backend.domain.switch.cluster_switch import DRAINS, MODES, PLANNED, TO_TARGET
from backend.domain.switch.switch_facts import SwitchRequest
from backend.domain.tree import tree_shape
from backend.queries.clusters.clusters import list_clusters
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import find_switch
from backend.queries.tree.trees import get_tree
from backend.switching import planning
from backend.web.frame.forms import Fields
from backend.web.words.figures import counted

NAMES = ("from", "to", "who", "zone", "mode", "drain", "reverses")
"""Fields of the form, as named in the address of a plan."""


@dataclass(frozen=True)
class Choices:
    """Choices that the form offers, as (value, label)."""

    sources: list[tuple[str, str]]
    targets: list[tuple[str, str]]
    zones: list[tuple[str, str]]


def choices(connection: Connection, given: Mapping[str, str]) -> Choices:
    """Return the choices; a given value stays among them, so that the form can show what is wrong with it."""
    clusters = list_clusters(connection)
    tree, active = get_tree(connection), list_active(connection)
    leaves = () if tree is None else tree_shape.leaves(tree.shape)
    ordered = sorted(clusters, key=lambda row: (row.name not in leaves, row.name))
    at = Counter(cluster for cluster, _ in {(row.cluster, row.place) for row in active})
    sources = [
        (row.name, f"{row.name}: {counted(at[row.name], 'environment')}{_state(row.state)}") for row in ordered
    ]
    targets = [
        (row.name, f"{row.name}{f': zone {row.zone}' if row.zone else ''}{_state(row.state)}")
        for row in ordered
        if row.name in leaves or row.name == given.get("to")
    ]
    zones = {row.zone for row in clusters} | {row.zone for row in active} | {given.get("zone")}
    named = [(zone, zone) for zone in sorted(filter(None, zones))]
    return Choices(sources, targets, named)


def _state(state: str) -> str:
    return "" if state == "online" else f", {state}"


def request_of(connection: Connection, given: Fields) -> SwitchRequest:
    """Return the request that the fields make. Raises ValueInvalid with the field, NotFound for a switch."""
    for name, value in given.items():
        if not value.isprintable() or len(value) > 1000:
            raise _wrong(name, "cannot be read")
    mode, drain = given.get("mode") or PLANNED, given.get("drain") or TO_TARGET
    for name, value, allowed in (("mode", mode, MODES), ("drain", drain, DRAINS)):
        if value not in allowed:
            raise _wrong(name, f"must be {' or '.join(allowed)}")
    if reverses := given.get("reverses"):
        return planning.reverse_request(find_switch(connection, reverses))
    for name in ("from", "to"):
        if not is_name(given.get(name, "")):
            raise _wrong(name, "must be a cluster from the list")
    tenant, instance, environment = _place(given.get("who", ""))
    return SwitchRequest(
        source=given["from"],
        target=given["to"],
        mode=mode,
        tenant=tenant,
        instance=instance,
        environment=environment,
        zone=given.get("zone") or None,
        drain=drain,
    )


def _place(who: str) -> tuple[str | None, str | None, str | None]:
    """Parse `acme`, `acme/retail` or `acme/retail/prod`; empty means all."""
    if not who.strip():
        return None, None, None
    parts: list[str | None] = [*who.strip().strip("/").split("/")]
    if len(parts) > 3 or not all(part is not None and is_name(part) for part in parts):
        raise _wrong("who", "must be a tenant, tenant/instance or tenant/instance/environment, or empty for all")
    tenant, instance, environment = (*parts, None, None)[:3]
    return tenant, instance, environment


def _wrong(field: str, problem: str) -> ValueInvalid:
    return ValueInvalid(f"{field} {problem}", (FieldError(f"/{field}", problem),))
