"""`/set-aside` and `/losses`: records that distributors could not copy, and how an operator resolves them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, Paging, Reading, Writing, listed
from backend.changes import edge_losses as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.queries.distribution import edge_losses
from backend.queries.distribution.edge_losses import DeadLetterRow, LossRow

router = APIRouter(tags=["losses"])


class WhichRecord(Body):
    """Reference to a dead-lettered record."""

    id: str = Field(max_length=2000, description="Id of the record, as in GET /set-aside.")


class WhichDistributor(Body):
    """Reference to a distributor whose losses are acknowledged."""

    cluster: str = Field(max_length=300)
    level: int = Field(ge=1, le=31)


@router.get("/set-aside", openapi_extra=needs(Action.READ_ESTATE))
def list_set_aside(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List dead-lettered records, which a target refused, with the reason and whether they were replayed."""
    return listed(
        edge_losses.list_dead_letters(connection, at), page, lambda row: row.recorded, _shown_dead_letter
    )


@router.post("/set-aside/replay", openapi_extra=needs(Action.CHANGE_ESTATE))
def replay_set_aside(body: WhichRecord, write: Writing) -> Response:
    """Replay a dead-lettered record: write it where it is missing. A repeated call writes nothing twice."""
    with write.services.reading() as connection:
        row = changes.find_set_aside(connection, body.id)
    done = changes.replay_dead_letter(write.services.engine, write.services.config, row, dry_run=write.dry_run)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        shown = {**_shown_dead_letter(row), "replayed": True}
        return Answer(200, {**shown, "written": list(done.written), "missing": dict(done.missing)})

    return write.carry_out(changes.record_replay(row, done), answer)


@router.get("/losses", openapi_extra=needs(Action.READ_ESTATE))
def list_losses(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List ranges of offsets that were gone from a source before a distributor could read them."""
    return listed(edge_losses.list_losses(connection, at), page, lambda row: row.recorded, _shown_loss)


@router.post("/losses/acknowledge", openapi_extra=needs(Action.CHANGE_ESTATE))
def acknowledge(body: WhichDistributor, write: Writing) -> Response:
    """Acknowledge all losses of a distributor so far: they no longer make it degraded."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        rows = [row for row in edge_losses.list_losses(connection) if _of(row) == (body.cluster, body.level)]
        return Answer(200, {"items": [_shown_loss(row) for row in rows], "next_cursor": None})

    return write.carry_out(changes.acknowledge(body.cluster, body.level), answer)


def _of(row: LossRow) -> tuple[str, int]:
    return row.cluster, row.level


def _shown_dead_letter(row: DeadLetterRow) -> dict[str, Any]:
    names = ("number", "incarnation", "offset")
    origin = dict(zip(names, row.origin, strict=True)) if row.origin else None
    return {**asdict(row), "origin": origin}


def _shown_loss(row: LossRow) -> dict[str, Any]:
    return asdict(row)
