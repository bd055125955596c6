"""`/switches`: starts, shows, forces, aborts and reverses switches."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    SharedServices,
    Write,
    Writing,
    listed,
    respond,
    shown_at,
)
from backend.api.frame.services import Services
from backend.api.switch.switch_plans import SwitchWish
from backend.changes import switch_start
from backend.changes import switches as changes
from backend.deciders import SWITCH
from backend.dispatch import Answer, Directed, Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, StateConflict, ValueInvalid
from backend.domain.switch.cluster_switch import BEFORE_MOVE, PLANNED
from backend.domain.switch.switch_commands import OPERATOR, Abort, Force
from backend.domain.switch.switch_facts import SwitchRequest, Without
from backend.domain.switch.switch_report import PhaseTimes
from backend.queries.base.names_of_events import SwitchNamed, name_switches
from backend.queries.switch import switch_progress
from backend.queries.switch import switches as queries
from backend.queries.switch.switch_clients import clients_of, missing, presence_ms
from backend.queries.switch.switches import SwitchRow, find_switch
from backend.switching import planning

router = APIRouter(prefix="/switches", tags=["switches"])

_LONGEST_DIGEST = 200


class NewSwitch(SwitchWish):
    """A switch as planned."""

    plan_digest: str | None = Field(
        None, max_length=_LONGEST_DIGEST, description="Digest from POST /switches/plan; optional for an emergency."
    )


class Clients(Body):
    """Clients that the switch stops waiting for."""

    clients: list[str] | None = Field(
        None, max_length=10_000, description="Ids of clients; omitted: all that the switch waits for now."
    )


class Reason(Body):
    """Reason of an abort."""

    reason: str | None = Field(None, max_length=1000, description="Reason, stored with the switch.")


class Reversal(Body):
    """Start of a reverse switch."""

    plan_digest: str | None = Field(
        None, max_length=_LONGEST_DIGEST, description="Digest of a plan of the reverse switch."
    )


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_switches(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """Return all switches, the newest first."""
    before = -page.after if isinstance(page.after, int) else None
    rows = queries.list_switches(connection, at, before=before, most=page.limit + 1)
    phases = queries.list_phases(connection, [row.id for row in rows], at)
    names = name_switches(connection, [row.id for row in rows])
    return listed(rows, page, lambda row: -row.started, lambda row: shown(row, phases[row.id], names.get(row.id)))


@router.post("", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def start_switch(body: NewSwitch, write: Writing) -> Response:
    """Start a switch as planned; the digest proves that the plan is still current."""
    return _start(write, body.switch_request(Without()), body.plan_digest, None)


@router.get("/{switch}", openapi_extra=needs(Action.READ_ESTATE))
def get_switch(switch: str, connection: Reading, services: SharedServices, at: At) -> Response:
    """Return one switch, with what it waits for at the moment."""
    row = find_switch(connection, switch, at)
    phases = queries.list_phases(connection, [row.id], at)[row.id]
    live = None if at is not None else _live(connection, services, row)
    name = name_switches(connection, [row.id]).get(row.id)
    return shown_at(row.version, {**shown(row, phases, name), "now": live})


@router.post("/{switch}/abort", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def abort_switch(switch: str, write: Writing, body: Reason | None = None) -> Response:
    """Abort a switch before the move; clients continue on the source."""
    abort = Abort(by=OPERATOR, reason=None if body is None else body.reason)

    def build(connection: Connection) -> list[Directed]:
        write.match(find_switch(connection, switch).version)
        # The targets that it changed are restored in the same transaction.
        return changes.abort_commands(connection, switch, abort, write.metadata)

    return write.run_together(build, lambda connection: _accepted(connection, switch))


@router.post("/{switch}/force", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def force_switch(switch: str, write: Writing, body: Clients | None = None) -> Response:
    """Stop waiting for clients that do not answer.

    The report names them; their later writes to the source are at the operator's risk.
    """

    def build(connection: Connection) -> Force:
        row = find_switch(connection, switch)
        write.match(row.version)
        clients = clients_of(connection, row, write.services.config)
        if body is None or body.clients is None:
            return Force(clients=tuple(missing(row, clients, write.services.config)))
        if row.is_moving:
            _check_known(body.clients, {each.client_id for each in clients})
        return Force(clients=tuple(body.clients))

    return write.run(SWITCH, changes.event_stream(switch), build, _answer(switch))


def _check_known(named: Sequence[str], known: Collection[str]) -> None:
    """Refuse unknown names: a typing error would be forced while the intended client is still waited for.

    Raises ValueInvalid.
    """
    errors = [
        FieldError(f"/clients/{number}", f"discovery knows no client {name[:60]!r} that this switch moves")
        for number, name in enumerate(named)
        if name not in known
    ]
    if errors:
        detail = f"{errors[0].detail}; no client was forced; now.waiting_for of the switch lists its clients"
        raise ValueInvalid(detail, tuple(errors[:100]))


@router.post("/{switch}/reverse", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def reverse_switch(switch: str, write: Writing, body: Reversal | None = None) -> Response:
    """Start another switch that moves the clients of a switch back; nothing has to be rebuilt for it."""
    with write.services.reading() as connection:
        row = find_switch(connection, switch)
    write.match(row.version)
    if row.state in BEFORE_MOVE:
        raise StateConflict(
            f"switch {switch} has not moved any client yet; abort it with POST /switches/{switch}/abort"
        )
    return _start(write, planning.reverse_request(row), None if body is None else body.plan_digest, row)


def _start(
    write: Write, switch_request: SwitchRequest, digest: str | None, reverses: SwitchRow | None
) -> Response:
    if write.idempotency is not None:
        first = write.services.dispatcher.recall(write.metadata.actor, write.idempotency)
        if first is not None:
            return respond(first)
    if digest is None and switch_request.mode == PLANNED and reverses is None:
        why = "plan_digest is missing; make a plan with POST /switches/plan and send its digest"
        raise ValueInvalid(why, (FieldError("/plan_digest", "is needed"),))
    # An emergency switch does not wait for a cluster that may not answer.
    asks = switch_request.mode == PLANNED
    plan = planning.make(write.services.reading, write.services.config, switch_request, write.time, asks=asks)
    switch_start.check(plan, digest)
    switch = uuid.uuid4().hex[:12]
    return write.carry_out(
        switch_start.starting(plan, switch, presence_ms(write.services.config)), _answer(switch)
    )


def _answer(switch: str) -> Callable[[Connection, Outcome], Answer]:
    return lambda connection, _: _accepted(connection, switch)


def _accepted(connection: Connection, switch: str) -> Answer:
    row = find_switch(connection, switch)
    phases = queries.list_phases(connection, [switch])[switch]
    name = name_switches(connection, [switch]).get(switch)
    return Answer(202, shown(row, phases, name), {"Location": f"/api/v1/switches/{switch}"})


def shown(row: SwitchRow, phases: list[PhaseTimes], named: SwitchNamed | None) -> dict[str, Any]:
    """Return a switch as answers show it."""
    return {
        "id": row.id,
        "number": None if named is None else named.number,
        "from": row.source,
        "to": row.target,
        "mode": row.mode,
        "state": str(row.state),
        "generation": row.generation,
        "drain": row.drain,
        "environments": [asdict(moving) for moving in row.moves],
        "retargets": [asdict(each) for each in row.retargets],
        "phases": [phase.as_answer() for phase in phases],
        "plan_digest": row.plan_digest,
        "reverses": row.reverses,
        "forced": list(row.forced),
        "reason": row.reason,
        "report": row.report,
        "stranded_arrived": row.arrived,
    }


def _live(connection: Connection, services: Services, row: SwitchRow) -> dict[str, Any] | None:
    """Return the current state: clients that are waited for, and the runner's latest progress."""
    if not row.is_moving:
        return switch_progress.read(connection, row.id) if row.report is None else None
    clients = clients_of(connection, row, services.config)
    waiting = set(missing(row, clients, services.config))
    told = switch_progress.read(connection, row.id) or {}
    return {
        **told,
        "clients": len(clients),
        "waiting_for": [
            {
                "client_id": each.client_id,
                "environment": "/".join(each.place),
                "role": each.role or None,
                "phase": each.phase,
                "silent_ms": each.silent_ms,
            }
            for each in clients
            if each.client_id in waiting
        ],
    }
