"""`/tree/-target/{cluster}/{level}` and `/tree/-settings/{cluster}/{level}`: the forms of one distributor.

They set its target, its pause, its rate limit and its compression.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import trees as changes
from backend.changes.trees import TreeMatch, existing_tree
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.domain.tree import routes
from backend.domain.tree.distributor_settings import COMPRESSIONS, DistributorSettings
from backend.queries.distribution.distributors import DistributorRow, read_distributors
from backend.queries.history.operations import operation_id
from backend.queries.tree.trees import TreeRow
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.tree.distributor import Distributor
from backend.web.words.figures import counted
from backend.web.words.units import size_bytes, size_shown

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TREE = ("Tree", "/tree")
TARGET = "/tree/-target/{cluster}/{level}"
SETTINGS = "/tree/-settings/{cluster}/{level}"
NO_LIMIT = "none"
API = "/api/v1/trees/main"
NO_CHANGE = "Nothing would change: these are the present settings."


def tree_seen(given: Fields) -> TreeMatch:
    """Return a TreeMatch for the version at which a form was opened; version 0 if there was no tree."""
    seen = version_seen(given)
    return lambda version: seen(version or 0)


def _distributor(connection: Connection, cluster: str, level: str) -> DistributorRow:
    """Return a distributor of the tree. Raises NotFound."""
    for row in read_distributors(connection):
        if row.cluster == cluster and str(row.level) == level:
            return row
    raise NotFound(f"there is no distributor of {cluster[:60]!r} at level {level[:9]!r}: see the Tree page")


def _changed_routes(before: TreeRow, after: TreeRow) -> dict[str, tuple[str, str]]:
    """Return the route of each origin's records before and after, for origins whose route changes."""
    was, will = routes.routes(before.shape, before.targets), routes.routes(after.shape, after.targets)
    names = [origin for origin in will if set(will[origin]) != set(was.get(origin, ()))]
    return {origin: (_way(was.get(origin, ())), _way(will[origin])) for origin in names}


def _way(edges: tuple[routes.Edge, ...]) -> str:
    return ", ".join(f"{edge.source} → {edge.target} (L{edge.level})" for edge in edges) or "–"


# --- targets


def _target_page(services: ConsoleServices, cluster: str, level: str) -> FormPage:
    with services.reading() as connection:
        before, row = existing_tree(connection), _distributor(connection, cluster, level)

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        after = existing_tree(connection)
        target = after.targets[row.cluster, row.level]
        ways = _changed_routes(before, after)
        proof = routes.coverage(after.shape, after.targets)
        path = f"{API}/targets/{row.cluster}/{row.level}"
        return Effect(
            sentence=f"{row.cluster}:{row.level} will copy to {target} instead of {row.target}. Every cluster "
            f"still gets every record once: {counted(proof.pairs, 'pair')} of origin and cluster proven."
            if outcome.events
            else NO_CHANGE,
            same=SameChange(None, None, curl("PUT", path, {"target": target}, version=before.version)),
            fields=fields_of(
                {"Target": target, **{f"Route from {origin}": now for origin, (_, now) in ways.items()}},
                {
                    "Target": row.target,
                    **{f"Route from {origin}": was for origin, (was, _) in ways.items()},
                },
            ),
            notes=(
                f"Leaves with changed routes pass a barrier first, and {row.cluster}'s log is read again from the "
                f"first record that {target} may lack. {target} gets no record twice.",
            )
            if outcome.events
            else (),
            nothing=not outcome.events,
        )

    return FormPage(
        template="target_form.html",
        address=f"/tree/-target/{row.cluster}/{row.level}",
        heading=f"Target of {row.cluster}:{row.level}",
        trail=[TREE],
        verb="Switch target",
        act=Command(
            lambda given: changes.switch_target(row.cluster, row.level, given.get("target", ""), tree_seen(given)),
            effect,
            lambda _: "/tree",
            operation_id,
        ),
        usual=lambda connection: {"target": row.target, "version": str(existing_tree(connection).version)},
        empty="Choose another target to see the routes that change.",
        choices={
            "distributor": Distributor(row),
            "targets": [(name, name) for name in row.allowed_targets],
            "only_one": len(row.allowed_targets) == 1,
        },
    )


# --- settings


def _wanted(given: Fields) -> dict[str, Any]:
    """Return the settings in the form. Raises ValueInvalid."""
    rate = given.get("bytes_per_second", "").strip().removesuffix("/s")
    return {
        "paused": given.get("paused") == "yes",
        "bytes_per_second": None if rate in ("", NO_LIMIT) else size_bytes(rate, "/bytes_per_second"),
        "compression": given.get("compression", ""),
    }


def _in_words(chosen: DistributorSettings) -> dict[str, str]:
    limit = chosen.bytes_per_second
    return {
        "Copying": "paused" if chosen.paused else "running",
        "Maximum bytes per second": NO_LIMIT if limit is None else size_shown(limit),
        "Compression": chosen.compression,
    }


def _commands(row: DistributorRow, before: DistributorSettings, after: DistributorSettings) -> str:
    place, lines = f"{row.cluster} {row.level}", []
    sets = []
    if after.bytes_per_second != before.bytes_per_second:
        sets.append(f"--bytes-per-second {after.bytes_per_second or NO_LIMIT}")
    if after.compression != before.compression:
        sets.append(f"--compression {after.compression}")
    if sets:
        lines.append(f"treeline distributor set {place} {' '.join(sets)}")
    if after.paused != before.paused:
        lines.append(f"treeline distributor {'pause' if after.paused else 'resume'} {place}")
    return "\n".join(lines)


def _notes(row: DistributorRow, before: DistributorSettings, after: DistributorSettings) -> tuple[str, ...]:
    notes = []
    if after.paused and not before.paused:
        notes.append(
            f"It keeps its position, and its records take no other route: they wait, also for the clusters behind "
            f"{row.target}. A pause longer than the retention on {row.cluster} loses records, which are reported "
            "as losses."
        )
    if after.compression != before.compression:
        notes.append("Its session is restarted, within seconds.")
    return tuple(notes)


def _settings_page(services: ConsoleServices, cluster: str, level: str) -> FormPage:
    with services.reading() as connection:
        row = _distributor(connection, cluster, level)
    before = row.settings

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        after = _distributor(connection, row.cluster, level).settings
        was, now = _in_words(before), _in_words(after)
        body = {name: value for name, value in _wanted(given).items() if value != getattr(before, name)}
        path = f"{API}/distributors/{row.cluster}/{row.level}"
        verbs = {(False, True): "will be paused", (True, False): "will resume from its position"}
        verb = verbs.get((before.paused, after.paused), "gets these settings")
        return Effect(
            sentence=f"{row.cluster}:{row.level} {verb}." if outcome.events else NO_CHANGE,
            same=SameChange(None, _commands(row, before, after), curl("PATCH", path, body)),
            fields=fields_of(now, was),
            notes=_notes(row, before, after),
            nothing=not outcome.events,
        )

    def usual(connection: Connection) -> Fields:
        chosen = _distributor(connection, cluster, level).settings
        limit = chosen.bytes_per_second
        return {
            "paused": "yes" if chosen.paused else "no",
            "bytes_per_second": NO_LIMIT if limit is None else size_shown(limit),
            "compression": chosen.compression,
            "version": str(existing_tree(connection).version),
        }

    return FormPage(
        template="distributor_form.html",
        address=f"/tree/-settings/{row.cluster}/{row.level}",
        heading=f"Settings of {row.cluster}:{row.level}",
        trail=[TREE],
        verb="Save settings",
        act=Command(
            lambda given: changes.change_distributor(row.cluster, row.level, _wanted(given), tree_seen(given)),
            effect,
            lambda _: "/tree",
        ),
        usual=usual,
        empty="Change a setting to see the effect.",
        choices={"distributor": Distributor(row), "compressions": [(each, each) for each in COMPRESSIONS]},
    )


@router.get(TARGET)
def target_form(cluster: str, level: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form of a distributor's target."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _target_page(services, cluster, level))


@router.post(TARGET)
def switch_target(
    cluster: str, level: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the switch of the target, or apply it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _target_page(services, cluster, level), fields)


@router.get(SETTINGS)
def settings_form(cluster: str, level: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form of a distributor's settings."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _settings_page(services, cluster, level))


@router.post(SETTINGS)
def change_settings(
    cluster: str, level: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the new settings, or apply them."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _settings_page(services, cluster, level), fields)
