"""Ways out of the findings of a switch plan: for each, the page where an operator resolves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from backend.domain.switch.cluster_switch import ALL_LEAVES, EMERGENCY
from backend.domain.switch.switch_checks import TENANT_MOVING, Finding
from backend.domain.switch.switch_plan import Plan

ADDRESS = "/switches/plan"


@dataclass(frozen=True)
class Remedy:
    """A link that leads out of a finding."""

    label: str
    address: str


@dataclass(frozen=True)
class Remedies:
    """The ways out of a plan's findings; `given` are the fields of its form."""

    plan: Plan
    given: Mapping[str, str]

    def of(self, found: Finding) -> Remedy | None:
        """Return where the finding is resolved; None if there is no such page, or if its text has the link."""
        make = MAKERS.get(found.slug)
        return None if make is None else make(self, found)

    def plan_again(self, label: str, **changes: str) -> Remedy:
        """Return a link to another plan: the fields of this one, with changes."""
        fields = {name: value for name, value in {**self.given, **changes}.items() if value}
        return Remedy(label, f"{ADDRESS}?{urlencode(fields)}")


def _cluster(remedies: Remedies, found: Finding) -> Remedy:
    return Remedy(f"Open cluster {found.subject}", f"/clusters/{quote(found.subject, safe='')}")


def _source(remedies: Remedies, found: Finding) -> Remedy:
    """Return the emergency switch, which does not need the source; for one that is an emergency, the cluster."""
    switch_request = remedies.plan.request
    if switch_request.is_emergency or switch_request.reverses is not None:
        return _cluster(remedies, found)
    return remedies.plan_again("Plan an emergency switch", mode=EMERGENCY)


def _distributor(remedies: Remedies, found: Finding) -> Remedy:
    cluster, _, level = found.subject.rpartition(":")
    return Remedy("Change distributor", f"/tree/-settings/{quote(cluster, safe='')}/{level}")


def _distributor_of(remedies: Remedies, found: Finding) -> Remedy:
    cluster = found.subject.rpartition(":")[0]
    return Remedy(f"Open cluster {cluster}", f"/clusters/{quote(cluster, safe='')}")


def _stream(remedies: Remedies, found: Finding) -> Remedy:
    return Remedy("Open stream", f"/tenants/{quote(found.subject)}")


def _application(remedies: Remedies, found: Finding) -> Remedy:
    place, _, application = found.subject.rpartition("/")
    return Remedy("Open application", f"/tenants/{quote(place)}/-applications/{quote(application, safe='')}")


def _client(remedies: Remedies, found: Finding) -> Remedy | None:
    place = next((each.place for each in remedies.plan.clients if each.client_id == found.subject), None)
    return None if place is None else Remedy("Open environment", f"/tenants/{quote('/'.join(place))}")


def _group_on_target(remedies: Remedies, found: Finding) -> Remedy:
    return _group(remedies.plan.request.target, found)


def _group_on_source(remedies: Remedies, found: Finding) -> Remedy:
    return _group(remedies.plan.request.source, found)


def _group(cluster: str, found: Finding) -> Remedy:
    return Remedy("Open group", f"/groups/-of?{urlencode({'cluster': cluster, 'group': found.subject})}")


def _all_leaves(remedies: Remedies, found: Finding) -> Remedy | None:
    if remedies.plan.request.reverses is not None:
        return None
    return remedies.plan_again("Wait for all leaves", drain=ALL_LEAVES)


MAKERS: Mapping[str, Callable[[Remedies, Finding], Remedy | None]] = {
    "same-cluster": lambda remedies, found: Remedy("Choose another target", "#field-to"),
    "nothing-to-move": lambda remedies, found: Remedy("Open active clusters", "/switches#places-title"),
    TENANT_MOVING: lambda remedies, found: Remedy("Open switches", "/switches"),
    "target-offline": _cluster,
    "target-silent": _cluster,
    "target-not-in-tree": lambda remedies, found: Remedy("Edit tree", "/tree/edit"),
    "source-offline": _source,
    "source-silent": _source,
    "source-not-in-tree": lambda remedies, found: Remedy("Edit tree", "/tree/edit"),
    "stream-not-there": _stream,
    "fewer-partitions": _stream,
    "stream-orphaned": _stream,
    "access-not-there": _application,
    "edge-paused": _distributor,
    "edge-blocked": _distributor_of,
    "edge-not-running": _distributor_of,
    "edge-of-other-origin": _distributor_of,
    "group-active-on-target": _group_on_target,
    "client-silent": _client,
    "client-never-reported": _group_on_source,
    "group-not-followed": _group_on_source,
    "margin-mode": lambda remedies, found: Remedy("Open environment", f"/tenants/{quote(found.subject)}"),
    "order-on-target-only": _all_leaves,
}
"""Slug of a finding (`switch_checks.py`) -> its way out. The text of `source-is-primary` has a link itself."""
