"""`/set-aside` and `/losses`: what distributors could not copy, and what an operator does about it."""

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
from backend.queries.distribution.edge_losses import LossRow, SetAsideRow

router = APIRouter(tags=["losses"])


class WhichRecord(Body):
    """A record that was set aside."""

    id: str = Field(max_length=2000, description="As GET /set-aside shows it.")


class WhichDistributor(Body):
    """A distributor whose losses were seen."""

    cluster: str = Field(max_length=300)
    level: int = Field(ge=1, le=31)


@router.get("/set-aside", openapi_extra=needs(Action.READ_ESTATE))
def list_set_aside(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """Records that a target refused, each with the reason and whether it was replayed."""
    return listed(edge_losses.list_set_aside(connection, at), page, lambda row: row.recorded, _shown_set_aside)


@router.post("/set-aside/replay", openapi_extra=needs(Action.CHANGE_ESTATE))
def replay_set_aside(body: WhichRecord, write: Writing) -> Response:
    """Write a record that was set aside where it is missing; once more writes nothing twice."""
    with write.services.reading() as connection:
        row = changes.find_set_aside(connection, body.id)
    done = changes.write_again(write.services.engine, write.services.config, row, dry_run=write.dry_run)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        shown = {**_shown_set_aside(row), "replayed": True}
        return Answer(200, {**shown, "written": list(done.written), "missing": dict(done.missing)})

    return write.carry_out(changes.record_replay(row, done), answer)


@router.get("/losses", openapi_extra=needs(Action.READ_ESTATE))
def list_losses(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """Ranges of offsets that were gone from a source before a distributor could read them."""
    return listed(edge_losses.list_losses(connection, at), page, lambda row: row.recorded, _shown_loss)


@router.post("/losses/acknowledge", openapi_extra=needs(Action.CHANGE_ESTATE))
def acknowledge(body: WhichDistributor, write: Writing) -> Response:
    """Take note of all that a distributor lost so far: it is no longer degraded for it."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        rows = [row for row in edge_losses.list_losses(connection) if _of(row) == (body.cluster, body.level)]
        return Answer(200, {"items": [_shown_loss(row) for row in rows], "next_cursor": None})

    return write.carry_out(changes.acknowledge(body.cluster, body.level), answer)


def _of(row: LossRow) -> tuple[str, int]:
    return row.cluster, row.level


def _shown_set_aside(row: SetAsideRow) -> dict[str, Any]:
    names = ("number", "incarnation", "offset")
    born = dict(zip(names, row.origin, strict=True)) if row.origin else None
    return {**asdict(row), "origin": born}


def _shown_loss(row: LossRow) -> dict[str, Any]:
    return asdict(row)
