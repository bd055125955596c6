"""`/losses`: ranges that were gone before they could be copied, dead-lettered records, and their forms.

A dead-lettered record is replayed where it is missing, once the cause is fixed. Losses can only be acknowledged;
the operator types the distributor's name for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import edge_losses as changes
from backend.domain.access.access import Action, Caller, may
from backend.domain.base.errors import FieldError, NotFound, StaleVersion, ValueInvalid
from backend.queries.distribution.edge_losses import DeadLetterRow, LossRow, list_dead_letters, list_losses
from backend.web.distribution.loss_tables import DEAD_LETTERS_TABLE, LOSSES_TABLE
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LOSSES = "/losses"
ABOVE = [("Losses", LOSSES)]
ACKNOWLEDGE, REPLAY = f"{LOSSES}/-acknowledge", f"{LOSSES}/-replay"
_LEVEL = re.compile(r"[1-9][0-9]?")
Text = Annotated[str, Query(max_length=2000)]


@dataclass(frozen=True)
class Lost:
    """Unacknowledged losses of one distributor."""

    cluster: str
    level: int
    ranges: tuple[LossRow, ...]

    @property
    def name(self) -> str:
        return f"{self.cluster}:{self.level}"

    @property
    def query(self) -> str:
        """Return the query part of the form's address."""
        return urlencode({"cluster": self.cluster, "level": self.level})

    @property
    def seen(self) -> str:
        """Return a version of the losses, which changes with each further loss."""
        return str(max((row.recorded for row in self.ranges), default=0))

    @property
    def summary(self) -> str:
        """Return a summary of the losses, as far as they are known: "lost 1 range: 10 records"."""
        known, partitions = (
            sum(row.at_least for row in self.ranges),
            len({(r.stream, r.partition) for r in self.ranges}),
        )
        if not known:
            return f"may have lost records of {counted(partitions, 'partition')}; none is known to be missing"
        exact = all(row.last_offset is not None for row in self.ranges)
        records = counted(known, "record") if exact else f"at least {counted(known, 'offset')}"
        return f"lost {counted(len(self.ranges), 'range')}: {records}"


def _open(rows: list[LossRow]) -> list[Lost]:
    found: dict[tuple[str, int], list[LossRow]] = {}
    for row in rows:
        if not row.acknowledged:
            found.setdefault((row.cluster, row.level), []).append(row)
    return [Lost(cluster, level, tuple(each)) for (cluster, level), each in sorted(found.items())]


@router.get(LOSSES)
def losses_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show all losses, newest first, with open ones on top; now or at an earlier position."""
    caller = enter(viewer, Action.READ_ESTATE)
    return templates.page("losses.html", {**frame(request, caller), **_listed(services, caller, query, at)})


def _listed(services: ConsoleServices, caller: Caller, query: TableQuery, at: str | None) -> Mapping[str, Any]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        lost, aside = list_losses(connection, position), list_dead_letters(connection, position)
    waiting = [row for row in aside if not row.replayed]
    return {
        "past": past,
        "open_losses": _open(lost),
        "losses": LOSSES_TABLE.view(lost[::-1], query),
        "waiting": len(waiting),
        "aside": DEAD_LETTERS_TABLE.view([*waiting[::-1], *(row for row in aside[::-1] if row.replayed)], query),
        "may_change": past is None and may(caller, Action.CHANGE_ESTATE),
    }


# --- taking note of losses


@dataclass(frozen=True)
class Acknowledging:
    """Action of the form that acknowledges losses."""

    cluster: str
    level: int

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by a dry run."""
        change_request.dry_run(changes.acknowledge(self.cluster, self.level), lambda connection, outcome: None)
        with change_request.services.reading() as connection:
            lost = self._lost(connection)
        body = {"cluster": self.cluster, "level": self.level}
        ranges = tuple(_range_in_words(row) for row in lost.ranges)
        return Effect(
            sentence=f"{lost.name} will no longer be degraded for its losses. It {lost.summary}. The list "
            "keeps them."
            if ranges
            else "Nothing would change: all losses are acknowledged.",
            same=SameChange(
                None,
                f"treeline losses acknowledge {self.cluster} {self.level}",
                curl("POST", "/api/v1/losses/acknowledge", body),
            ),
            lists=((f"Losses ({len(ranges)})", ranges),) if ranges else (),
            nothing=not ranges,
            confirm=lost.name if ranges else "",
            kept={"seen": lost.seen},
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Acknowledge the losses, if the distributor's name was typed."""
        name = f"{self.cluster}:{self.level}"
        if given.get("confirm", "").strip() != name:
            detail = f"type {name} to confirm"
            raise ValueInvalid(detail, (FieldError("/confirm", detail),))

        def match(connection: Connection) -> None:
            if self._lost(connection).seen != given.get("seen"):
                raise StaleVersion(
                    f"the losses of {name} have changed since you opened this form: continue to see the current "
                    "ones"
                )

        change_request.carry_out_once(changes.acknowledge(self.cluster, self.level, match), once, given)
        return RedirectResponse(LOSSES, 303)

    def _lost(self, connection: Connection) -> Lost:
        found = [each for each in _open(list_losses(connection)) if each.name == f"{self.cluster}:{self.level}"]
        return found[0] if found else Lost(self.cluster, self.level, ())


def _range_in_words(row: LossRow) -> str:
    last = "on" if row.last_offset is None else f"to {row.last_offset:,}"
    first = f"{'from ' if row.last_offset is None else ''}{row.first_offset:,}"
    # Reasons may begin with the same offsets.
    reason = row.reason.removeprefix(f"offsets {row.first_offset} to {row.last_offset} were ")
    return f"{row.stream}/{row.partition}, offsets {first} {last}: {reason}"


def _acknowledge_page(cluster: str, level: str) -> FormPage:
    if not _LEVEL.fullmatch(level):
        raise NotFound(f"there is no distributor of {cluster[:60]!r} at level {level[:9]!r}")
    return FormPage(
        template="losses_acknowledge.html",
        address=ACKNOWLEDGE,
        heading=f"Acknowledge losses of {cluster}:{level}",
        trail=ABOVE,
        verb="Acknowledge losses",
        act=Acknowledging(cluster, int(level)),
        usual=lambda _: {"cluster": cluster, "level": level},
    )


@router.get(ACKNOWLEDGE)
def acknowledge_form(
    request: Request, services: Shared, viewer: Viewer, cluster: Text = "", level: Text = ""
) -> Response:
    """Show the form for one distributor."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _acknowledge_page(cluster, level))


@router.post(ACKNOWLEDGE)
def acknowledge(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the acknowledgement, or apply it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    page = _acknowledge_page(fields.get("cluster", ""), fields.get("level", ""))
    return answer_form(request, services, caller, page, fields)


# --- replaying records


@dataclass(frozen=True)
class Replaying:
    """Action of the form that replays a dead letter."""

    row: DeadLetterRow

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview without writing: the record can be traced, and which target refused it."""
        row = self.row
        with change_request.services.reading() as connection:
            changes.facts_of(connection, change_request.services.config, row)
        again = ("It was replayed before: it is not written again where it already is.",) if row.replayed else ()
        return Effect(
            sentence=f"The record is traced, then written on {row.target} and on every other cluster that "
            "no distributor brings it to. No cluster gets it twice.",
            same=SameChange(
                None,
                f"treeline set-aside replay {row.id}",
                curl("POST", "/api/v1/set-aside/replay", {"id": row.id}),
            ),
            fields=fields_of(_about(row)),
            notes=(f"If {row.target} still refuses it, nothing is written, and the reason is shown.", *again),
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Replay the record, and show where it was written and where it is still missing."""
        services, row = change_request.services, self.row
        done = changes.replay_dead_letter(services.engine, services.config, row)
        change_request.carry_out_once(changes.record_replay(row, done), once, given)
        missing = tuple(f"{cluster}: {why}" for cluster, why in done.missing.items())
        shown = {"row": row, "written": done.written, "missing": missing, "trail": ABOVE}
        return templates.page(
            "losses_replayed.html", {**frame(change_request.request, change_request.viewer), **shown}
        )


def _about(row: DeadLetterRow) -> dict[str, str]:
    return {
        "Record": f"{row.stream}/{row.partition} at {row.offset:,} on {row.cluster}",
        "Refused by": f"{row.target}, target of {row.cluster}:{row.level}",
        "Reason": row.reason,
    }


def _replay_page(services: ConsoleServices, identity: str) -> FormPage:
    """Return the form of one dead letter. Raises NotFound."""
    with services.reading() as connection:
        row = changes.find_set_aside(connection, "" if "\x00" in identity else identity)
    return FormPage(
        template="losses_replay.html",
        address=REPLAY,
        heading="Replay dead letter",
        trail=ABOVE,
        verb="Replay record",
        act=Replaying(row),
        usual=lambda _: {"id": row.id},
        choices={"about": _about(row)},
    )


@router.get(REPLAY)
def replay_form(request: Request, services: Shared, viewer: Viewer, id: Text = "") -> Response:
    """Show the form for one dead letter."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _replay_page(services, id))


@router.post(REPLAY)
def replay(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the replay, or run it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _replay_page(services, fields.get("id", "")), fields)
