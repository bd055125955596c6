"""`/placements/-new`: the form that creates a plan, by the procedure of `form_page.py`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import placements as changes
from backend.changes.placements import PlacementChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import AlreadyExists, FieldError, NotFound, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.names.names import is_name
from backend.domain.placement.placement_aims import MOST_NAMED, Aims
from backend.domain.placement.placement_runs import PlacementState
from backend.placement.errors import PlacementInvalid
from backend.placement.reading import parse
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.placement.placements import find_placement, list_placements, read_reassignment
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.placement.placement_view import PLACEMENTS, aims_fields, given_fields
from backend.web.words.figures import counted, id_ranges
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADDRESS = "/placements/-new"
_DRY_RUN_ID = "tried-out"
"""Id of the placement in a dry run; no real placement has it."""
DECLARED = "declared"
"""Value of the replication factor's field for the factors that streams declare."""
_IDS = re.compile(r"([0-9]{1,10})(?:\s*-\s*([0-9]{1,10}))?")
_BY_TOPIC = re.compile(r"(.+)=([0-9]{1,10})")
MOST_TYPED = 900_000
"""Number of characters of a reassignment that the form accepts; larger ones need the command."""
_REASSIGNMENT_TOO_LONG = "The reassignment is too long for this form. Submit it with"
_NOTHING_MOVES = "Creating a plan moves nothing: a worker reads the cluster and computes the plan."
PlanRequest = Aims | dict[str, Any]
"""Options of a plan, or a reassignment to use as the plan."""


# --- parsing


def broker_ids(text: str, pointer: str) -> tuple[int, ...]:
    """Parse broker ids such as `1, 2, 5-8`. Raises ValueInvalid."""
    found: list[int] = []
    for word in re.split(r"[,\s]+", re.sub(r"\s*-\s*", "-", text.strip())):
        run = _IDS.fullmatch(word)
        if word and run is None:
            raise _invalid(pointer, f"must be broker ids such as 1, 2, 5-8; {word[:60]!r} is not valid")
        if run is None:
            continue
        low, high = int(run[1]), int(run[2] or run[1])
        if high < low:
            raise _invalid(pointer, f"{word} is not a valid range: the first id must be the lower one")
        if len(found) + high - low >= MOST_NAMED:
            raise _invalid(pointer, f"lists more than {MOST_NAMED:,} brokers")
        found += range(low, high + 1)
    return tuple(found)


def _aims(given: Fields) -> Aims:
    """Parse the options. Raises ValueInvalid for syntax errors; the domain judges the values."""
    errors: list[FieldError] = []
    found: dict[str, Any] = {}
    for name in ("target_brokers", "no_leaders"):
        try:
            found[name] = broker_ids(given.get(name, ""), f"/{name}")
        except ValueInvalid as error:
            errors += error.errors
    try:
        found |= _factors(given.get("replication_factor", ""))
    except ValueInvalid as error:
        errors += error.errors
    refuse(errors)
    # An empty field means all brokers.
    found["target_brokers"] = found["target_brokers"] or None
    return Aims(**found, excluded_topics=tuple(dict.fromkeys(given.get("excluded_topics", "").split())))


def _request(given: Fields) -> PlanRequest:
    """Parse the form. Raises ValueInvalid."""
    text = given.get("reassignment", "").strip()
    if not text:
        return _aims(given)
    others = ("target_brokers", "no_leaders", "replication_factor", "excluded_topics")
    refuse(
        [
            FieldError(f"/{name}", "cannot be combined with a reassignment")
            for name in others
            if given.get(name, "").strip()
        ]
    )
    try:
        document = parse(text)
    except PlacementInvalid as error:
        raise _invalid("/reassignment", str(error)) from error
    if not isinstance(document, dict):
        raise _invalid("/reassignment", "must be an object with version and partitions")
    return document


def _factors(text: str) -> dict[str, Any]:
    """Parse `3` for all topics, `orders=3 payments=2` by topic, or `declared`."""
    words = text.split()
    if words == [DECLARED]:
        return {"as_declared": True}
    if len(words) <= 1 and "=" not in text:
        return {"replication_factor": whole_number(text, "/replication_factor") if words else None}
    by_topic = {}
    for word in words:
        said = _BY_TOPIC.fullmatch(word)
        if said is None:
            raise _invalid(
                "/replication_factor",
                f"must be a number, {DECLARED}, or TOPIC=NUMBER such as orders=3; {word[:60]!r} is not valid",
            )
        by_topic[said[1]] = int(said[2])
    return {"replication_factors": by_topic}


def _invalid(pointer: str, problem: str) -> ValueInvalid:
    return ValueInvalid(f"{pointer.lstrip('/')} {problem}", (FieldError(pointer, problem),))


def as_given(cluster: str, aims: Aims) -> Fields:
    """Return the fields of a form with these options."""
    by_topic = " ".join(f"{topic}={factor}" for topic, factor in sorted(aims.replication_factors.items()))
    return {
        "cluster": cluster,
        "target_brokers": id_ranges(aims.target_brokers or ()),
        "replication_factor": DECLARED if aims.as_declared else by_topic or str(aims.replication_factor or ""),
        "excluded_topics": "\n".join(aims.excluded_topics),
        "no_leaders": id_ranges(aims.no_leaders),
    }


# --- execution


class _PlanCreation:
    """The form's action: request a plan."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Check the request in a dry run, and describe its effect."""
        cluster, wanted = given.get("cluster", ""), _request(given)

        def look(connection: Connection, _: Outcome) -> Effect:
            # Use the resolved options, in which declared factors are listed by topic.
            meant = find_placement(connection, _DRY_RUN_ID).aims if isinstance(wanted, Aims) else wanted
            return _effect(connection, cluster, meant)

        return change_request.dry_run(_change(_DRY_RUN_ID, cluster, wanted), look)

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Request the plan; each rendered form creates one placement, however often it is submitted."""
        placement = hashlib.sha256(f"{change_request.viewer.name} {once}".encode()).hexdigest()[:12]
        change = _change(placement, given.get("cluster", ""), _request(given))
        # The same form may be submitted twice at once, and the other request may win.
        with suppress(AlreadyExists):
            change_request.carry_out_once(change, once, given)
        return RedirectResponse(f"/placements/{placement}", 303)


def _change(placement: str, cluster: str, wanted: PlanRequest) -> PlacementChange:
    if not cluster:
        raise ValueInvalid("choose a cluster", (FieldError("/cluster", "choose a cluster"),))
    if isinstance(wanted, Aims):
        return changes.request_placement(placement, cluster, wanted)
    try:
        return changes.submit_reassignment(placement, cluster, wanted)
    except ValueInvalid as error:
        # The form has a single field for the whole reassignment.
        raise _invalid("/reassignment", error.detail) from error


def _effect(connection: Connection, cluster: str, wanted: PlanRequest) -> Effect:
    row = next(each for each in list_clusters(connection) if each.name == cluster)
    notes = []
    if row.state == "offline":
        notes.append(f"{cluster} is offline: planning fails unless the cluster is reachable by then.")
    others = list_placements(connection, cluster=cluster, most=20)
    waiting = sum(each.state is PlacementState.REQUESTED and each.id != _DRY_RUN_ID for each in others)
    if waiting:
        notes.append(
            f"{counted(waiting, 'other plan')} for {cluster} {'is' if waiting == 1 else 'are'} being computed."
        )
    if isinstance(wanted, Aims):
        does, said, same = "plans its replicas", aims_fields(wanted), _same(cluster, wanted)
    else:
        said = given_fields(len(wanted["partitions"]))
        does, same = "checks the reassignment", _same_given(cluster, wanted)
    return Effect(
        sentence=f"A worker reads {cluster} and {does}. Nothing is moved.",
        same=same,
        fields=fields_of({"Cluster": cluster, **dict(said)}),
        notes=tuple(notes),
    )


def _same_given(cluster: str, reassignment: dict[str, Any]) -> SameChange:
    body = {"cluster": cluster, "reassignment": reassignment}
    return SameChange(None, _command_given(cluster), curl("POST", "/api/v1/placements", body))


def _command_given(cluster: str) -> str:
    return f"treeline placement plan --cluster {cluster} --from-reassignment moves.json"


def _same(cluster: str, aims: Aims) -> SameChange:
    body: dict[str, Any] = {"cluster": cluster}
    words = ["treeline placement plan", f"--cluster {cluster}"]
    if aims.target_brokers is not None:
        body["target_brokers"] = list(aims.target_brokers)
        words.append(f"--target-brokers {','.join(map(str, aims.target_brokers))}")
    if aims.replication_factor is not None:
        words.append(f"--replication-factor {aims.replication_factor}")
    if aims.as_declared:
        words.append(f"--replication-factor {DECLARED}")
        body["replication_factor"] = DECLARED
    elif factor := aims.replication_factors or aims.replication_factor:
        body["replication_factor"] = factor
    if aims.excluded_topics:
        body["excluded_topics"] = list(aims.excluded_topics)
    if aims.no_leaders:
        body["no_leaders"] = list(aims.no_leaders)
    # The other options do not exist on the command line.
    by_topic = aims.replication_factors and not aims.as_declared
    cannot_say = by_topic or aims.excluded_topics or aims.no_leaders
    command = None if cannot_say else " ".join(words)
    return SameChange(None, command, curl("POST", "/api/v1/placements", body))


# --- routes


def _page(services: ConsoleServices, given: Fields | None = None, hint: str = _NOTHING_MOVES) -> FormPage:
    with services.reading() as connection:
        clusters = list_clusters(connection)
    usual = given or ({"cluster": clusters[0].name} if len(clusters) == 1 else {})
    return FormPage(
        template="placement_form.html",
        address=ADDRESS,
        heading="Create plan",
        trail=[PLACEMENTS],
        verb="Create plan",
        act=_PlanCreation(),
        usual=lambda connection: usual,
        choices=_choices(clusters),
        empty=hint,
    )


def _choices(clusters: list[ClusterRow]) -> Mapping[str, Any]:
    options = [(row.name, f"{row.name}{_about(row)}") for row in clusters]
    return {"clusters": [("", "choose a cluster"), *options], "most_typed": MOST_TYPED}


def _about(row: ClusterRow) -> str:
    parts = [counted(row.brokers, "broker")] if row.brokers else []
    parts += [row.state] if row.state != "online" else []
    return f" ({', '.join(parts)})" if parts else ""


@router.get(ADDRESS)
def new_placement(
    request: Request,
    services: Shared,
    viewer: Viewer,
    like: str = Query("", max_length=100),
    cluster: str = Query("", max_length=200),
    target_brokers: str = Query("", max_length=40_000),
    replication_factor: str = Query("", max_length=40_000),
) -> Response:
    """Show the form; `like` is the id of an earlier placement whose options are filled in.

    The other parameters fill in a cluster, brokers and a replication factor.
    """
    caller = enter(viewer, Action.CHANGE_ESTATE)
    wanted = {"cluster": cluster, "target_brokers": target_brokers, "replication_factor": replication_factor}
    given: Fields | None = wanted if cluster else None
    hint = _NOTHING_MOVES
    if like:
        if not is_name(like):
            raise NotFound(f"there is no placement {like[:60]!r}; /placements lists all placements")
        with services.reading() as connection:
            row = find_placement(connection, like)
            handed_in = None if row.given is None else read_reassignment(connection, like)
        given = as_given(row.cluster, row.aims)
        if handed_in is not None:
            text = json.dumps(handed_in)
            is_short = len(text) <= MOST_TYPED
            given |= {"reassignment": text} if is_short else {}
            hint = hint if is_short else f"{_REASSIGNMENT_TOO_LONG} {_command_given(row.cluster)}"
    return show_form(request, services, caller, _page(services, given, hint))


@router.post(ADDRESS)
def ask_for_placement(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Check the form, or create the plan."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services), fields)
