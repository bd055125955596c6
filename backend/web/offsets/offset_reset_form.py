"""`/offsets/-reset`: set a group's offsets on one cluster, forwards or backwards; the other clusters follow."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import offsets as changes
from backend.cluster_requests.resetting import EARLIEST, LATEST, Wish, refuse_members, reset, wished_offsets
from backend.domain.access.access import Action, Caller, refusal
from backend.domain.base.errors import FieldError, NotFound, StaleVersion, ValueInvalid
from backend.queries.offsets.observed_groups import GroupRow, groups_called
from backend.queries.offsets.offsets import Wanted, list_offsets, streams_of_group
from backend.queries.switch.active_clusters import ActiveRow, list_active
from backend.queries.tenants.visible_clusters import visible_leaves
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, FieldEffect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.offsets.offsets_page import OFFSETS
from backend.web.words.figures import counted
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RESET = OFFSETS + "/-reset"
_MOST_COMMITS = 5000
_PLACE = re.compile(r"\b([0-9]{1,9}):([0-9]{1,18})\b")
_OF_THE_CALENDAR = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?")
_AT_OFFSET, _AT_TIME = "offset", "time"
STARTS = (
    (EARLIEST, "earliest offset"),
    (LATEST, "latest offset"),
    (_AT_TIME, "first record from a time on"),
    (_AT_OFFSET, "an offset"),
)
"""Choices of the form for the new offset; the last two need a field of their own."""
Text = Annotated[str, Query(max_length=1200)]


@dataclass(frozen=True)
class Resetting:
    """Change made by this form."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Ask the cluster for the offsets that would be set; set nothing."""
        wish = _wish(change_request, given)
        wanted = wished_offsets(wish)
        refuse_members(wish)
        present = _present(change_request, wish)
        change_request.dry_run(changes.record_reset(wish, wanted), lambda connection, outcome: None)
        back = sum(max(0, present[each] - wanted[each]) for each in wanted if each in present)
        skipped = sum(max(0, wanted[each] - present[each]) for each in wanted if each in present)
        return Effect(
            sentence=f"{wish.group} will continue from these offsets on {wish.cluster.name} (technical name "
            f"{wish.technical_group}). The other clusters follow.",
            same=_same(wish, given),
            fields=tuple(
                FieldEffect(f"Partition {each}", f"{present[each]:,}" if each in present else "–", f"{offset:,}")
                for each, offset in sorted(wanted.items())
            ),
            notes=(
                *_elsewhere(change_request, wish),
                *_notes(back, skipped, len(wanted) - len(present.keys() & wanted.keys())),
            ),
            confirm=wish.group,
            kept={"seen": _in_words(wanted)},
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Set the offsets if the group's name was typed to confirm; the group has no members at that time."""
        wish = _wish(change_request, given)
        if given.get("confirm", "").strip() != wish.group:
            detail = f"type {wish.group}, the name of the group, to confirm"
            raise ValueInvalid(detail, (FieldError("/confirm", detail),))
        if not change_request.was_carried_out(once, given):
            wanted = _as_seen(wished_offsets(wish), given.get("seen", ""))
            change = changes.record_reset(wish, wanted)
            change_request.dry_run(change, lambda connection, outcome: None)
            reset(change_request.services.engine, wish, wanted)
            change_request.carry_out_once(change, once, given)
        return RedirectResponse(OFFSETS, 303)


def _in_words(wanted: Mapping[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(wanted.items()))


def _as_seen(now: Mapping[int, int], seen: str) -> dict[int, int]:
    """Return the offsets of the preview if logs have only grown since. Raises StaleVersion."""
    found = {int(partition): int(offset) for partition, offset in _PLACE.findall(seen)}
    if found.keys() != now.keys() or any(found[each] > now[each] for each in now):
        raise StaleVersion("partitions or offsets have changed since the preview; preview the reset again")
    return found


def _wish(change_request: ChangeRequest, given: Fields) -> Wish:
    """Read the requested reset. Raises the domain's errors; NotFound for a tenant that is not the viewer's."""
    stream, part = given.get("stream", "").strip(), given.get("partition", "").strip()
    refused = refusal(change_request.viewer, Action.MANAGE_TENANT, stream.partition("/")[0])
    if refused is not None:
        raise changes.no_stream(stream) if isinstance(refused, NotFound) else refused
    partition = whole_number(part, "/partition") if part else None
    if partition is not None and partition < 0:
        raise ValueInvalid("a partition must be 0 or more", (FieldError("/partition", "must be 0 or more"),))
    texts = {name: given.get(name, "").strip() for name in ("cluster", "group")}
    with change_request.services.reading() as connection:
        viewer = change_request.viewer
        return changes.wish(
            connection, viewer, texts["cluster"], stream, texts["group"], partition, _new_offset(given)
        )


def _new_offset(given: Fields) -> str:
    """Return the new offset in the REST API's form, which the field `to` may also have itself."""
    to = given.get("to", "").strip()
    if to == _AT_OFFSET:
        offset = given.get("offset", "").strip()
        if not offset.isascii() or not offset.isdecimal():
            raise ValueInvalid(
                "an offset must be a whole number", (FieldError("/offset", "must be a whole number"),)
            )
        return offset
    if to == _AT_TIME:
        time = given.get("time", "").strip()
        if not time:
            raise ValueInvalid("choose a time", (FieldError("/time", "must not be empty"),))
        # The calendar's times have no zone; the form says that they are UTC.
        return f"{time}Z" if _OF_THE_CALENDAR.fullmatch(time) else time
    return to


def _start(to: str) -> Fields:
    """Return the form's fields for a new offset in the REST API's form."""
    if to in ("", EARLIEST, LATEST, _AT_OFFSET, _AT_TIME):
        return {"to": to}
    if to.isascii() and to.isdecimal():
        return {"to": _AT_OFFSET, "offset": to}
    return {
        "to": _AT_TIME,
        "time": to.removesuffix("Z") if _OF_THE_CALENDAR.fullmatch(to.removesuffix("Z")) else to,
    }


def _present(change_request: ChangeRequest, wish: Wish) -> Mapping[int, int]:
    """Return partition -> the group's current offset on the cluster, where it is known."""
    with change_request.services.reading() as connection:
        owner = frozenset({wish.stream.tenant})
        wanted = Wanted(group=wish.group, stream=str(wish.stream), tenants=owner, limit=_MOST_COMMITS)
        rows = list_offsets(connection, wanted)
    found: dict[int, int] = {}
    for row in sorted(rows, key=lambda each: each.committed_at_ms):
        if row.cluster == wish.cluster.name:
            found[row.partition] = row.committed_offset
        else:
            here = next((each for each in row.elsewhere if each.cluster == wish.cluster.name), None)
            if here is not None and here.offset is not None:
                found[row.partition] = here.offset
    return found


def _elsewhere(change_request: ChangeRequest, wish: Wish) -> tuple[str, ...]:
    """Return a note if the group's clients are sent to another cluster than the one being reset."""
    with change_request.services.reading() as connection:
        active = _active(connection, str(wish.stream), wish.group)
    if active is None or active.cluster == wish.cluster.name:
        return ()
    return (f"{wish.cluster.name} is not the active cluster: the environment's clients are on {active.cluster}.",)


def _notes(back: int, skipped: int, unknown: int) -> tuple[str, ...]:
    notes = ["Stop the group's consumers on that cluster first: a reset is refused while the group has members."]
    if skipped:
        notes.append(f"{counted(skipped, 'record')} will be skipped.")
    if back:
        notes.append(f"{counted(back, 'record')} will be read again.")
    if unknown:
        notes.append(f"The current offset of {counted(unknown, 'partition')} is not known.")
    return tuple(notes)


def _same(wish: Wish, given: Fields) -> SameChange:
    partition = given.get("partition", "").strip()
    body: dict[str, Any] = {"cluster": wish.cluster.name, "stream": str(wish.stream), "group": wish.group}
    if partition:
        body["partition"] = int(partition)
    body["to"] = wish.to
    group = shlex.quote(wish.group)
    command = f"treeline offsets reset {wish.stream} {group} --cluster {wish.cluster.name} --to {wish.to}"
    if partition:
        command += f" --partition {partition}"
    return SameChange(None, command, curl("POST", "/api/v1/offsets/reset", body))


def _active(connection: Connection, stream: str, group: str) -> ActiveRow | None:
    """Return the active cluster of the stream's environment; None if it is not known.

    Without a stream, the environment is the only one in which the group has committed.
    """
    streams = [stream] if stream else streams_of_group(connection, group) if group else []
    places = {tuple(each.split("/")[:3]) for each in streams if each.count("/") == 3}
    if len(places) != 1:
        return None
    tenant, instance, environment = places.pop()
    rows = list_active(connection, places=[(tenant, instance, environment)])
    return next((row for row in rows if row.zone is None and row.cluster), None)


def _observed(connection: Connection, stream: str, group: str, cluster: str, viewer: Caller) -> GroupRow | None:
    """Return the group on the cluster as observed last, if the fields name one that the viewer may see."""
    place = stream.rpartition("/")[0]
    rows = groups_called(connection, place, group, viewer.tenants_for(Action.MANAGE_TENANT))
    return next((row for row in rows if row.cluster == cluster), None)


def _page(services: ConsoleServices, usual: Fields, viewer: Caller) -> FormPage:
    stream, group = usual.get("stream", "").strip(), usual.get("group", "").strip()
    with services.reading() as connection:
        clusters = visible_leaves(connection, viewer)
        active = _active(connection, stream, group)
    seen = viewer.tenants_for(Action.MANAGE_TENANT)
    if active is None or (seen is not None and active.tenant not in seen):
        about = "Offsets are set on this cluster; the others follow. Choose the group's active cluster."
        choices = [("", "choose a cluster"), *((name, name) for name in clusters)]
    else:
        where = f"{active.tenant}/{active.instance}/{active.environment}"
        about = f"Offsets are set on this cluster; the others follow. Clients of {where} are on {active.cluster}."
        choices = [(name, f"{name} (active)" if name == active.cluster else name) for name in clusters]
        usual = {**usual, "cluster": usual.get("cluster") or active.cluster or ""}
    chosen = usual.get("cluster", "").strip()
    with services.reading() as connection:
        found = _observed(connection, stream, group, chosen, viewer)
    return FormPage(
        template="offset_reset_form.html",
        address=RESET,
        heading="Reset a group's offsets",
        trail=[("Offsets", OFFSETS)],
        verb="Reset offsets",
        act=Resetting(),
        usual=lambda _: usual,
        choices={
            "clusters": choices,
            "about_clusters": about,
            "starts": STARTS,
            "members": () if found is None else found.members,
            "subject": group,
            "where": chosen,
        },
    )


@router.get(RESET)
def reset_form(
    request: Request,
    services: Shared,
    viewer: Viewer,
    stream: Text = "",
    group: Text = "",
    cluster: Text = "",
    partition: Text = "",
    to: Text = EARLIEST,
) -> Response:
    """Show the form, filled in from the query string."""
    caller: Caller = enter_in_some_tenant(viewer, Action.MANAGE_TENANT)
    usual = {"stream": stream, "group": group, "cluster": cluster, "partition": partition, **_start(to.strip())}
    return show_form(request, services, caller, _page(services, usual, caller))


@router.post(RESET)
def reset_offsets(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the reset, or carry it out."""
    caller = enter_in_some_tenant(viewer, Action.MANAGE_TENANT)
    given = {**fields, **_start(fields.get("to", "").strip())}
    return answer_form(request, services, caller, _page(services, given, caller), given)
