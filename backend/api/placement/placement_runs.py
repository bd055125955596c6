"""`/placements/{id}/apply` and what follows: moving replicas as planned, more slowly, not at all, and back."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import Body, Write, Writing
from backend.api.placement.placements import shown
from backend.changes import placements as changes
from backend.deciders import PLACEMENT
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.placement.placement_runs import (
    HIGHEST_RATE,
    MOST_MOVES,
    Cancel,
    NamedLimits,
    Pause,
    PlacementRunCommand,
    Resume,
    RunLimits,
)
from backend.queries.placement.placements import find_placement

router = APIRouter(prefix="/placements", tags=["placements"])


class HowFast(Body):
    """How fast replicas are moved."""

    bytes_per_second: int | None = Field(
        None, ge=1, le=HIGHEST_RATE, description="A broker sends, and gets; null: as fast as it can."
    )
    moves_per_broker: int = Field(
        RunLimits.moves_per_broker, ge=1, le=MOST_MOVES, description="That a broker takes part in at once."
    )
    partitions_at_once: int = Field(RunLimits.partitions_at_once, ge=1, le=MOST_MOVES)

    def limits(self) -> RunLimits:
        """All of them, the usual ones where none is named."""
        return RunLimits(**self.named())

    def named(self) -> NamedLimits:
        """Those that were sent."""
        sent: NamedLimits = {}
        if "bytes_per_second" in self.model_fields_set:
            sent["bytes_per_second"] = self.bytes_per_second
        if "moves_per_broker" in self.model_fields_set:
            sent["moves_per_broker"] = self.moves_per_broker
        if "partitions_at_once" in self.model_fields_set:
            sent["partitions_at_once"] = self.partitions_at_once
        return sent


class Applying(HowFast):
    """A plan, as it was looked at."""

    digest: str = Field(max_length=200, description="Of the plan.")


@router.post("/{placement}/apply", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def apply_placement(placement: str, body: Applying, write: Writing) -> Response:
    """Move replicas as planned, one of a partition at a time. While that goes on: change its limits. What is not
    named stays as it was. A cluster that is not as it was when the plan was made is left as it is: the answer to
    GET says why."""
    limits, digest = body.named(), body.digest

    return _carry_out(placement, write, lambda connection: changes.applying(connection, digest, limits))


@router.post("/{placement}/pause", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def pause_placement(placement: str, write: Writing) -> Response:
    """Begin no further moves; those under way come to their end."""
    return _carry_out(placement, write, lambda _: Pause())


@router.post("/{placement}/resume", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def resume_placement(placement: str, write: Writing) -> Response:
    """Go on after a pause."""
    return _carry_out(placement, write, lambda _: Resume())


@router.post("/{placement}/cancel", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def cancel_placement(placement: str, write: Writing) -> Response:
    """End it: moves under way are given back, what has moved stays. It can be applied again, or rolled back."""
    return _carry_out(placement, write, lambda _: Cancel())


@router.post("/{placement}/rollback", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def roll_placement_back(placement: str, write: Writing, body: HowFast | None = None) -> Response:
    """Move replicas back to where they were when the plan was made, from wherever they are. Of limits what is not
    named stays as it was."""
    limits: NamedLimits = {} if body is None else body.named()

    return _carry_out(placement, write, lambda connection: changes.going_back(connection, limits))


def _carry_out(placement: str, write: Write, build: changes.BuildRun) -> Response:
    def matched(connection: Connection) -> PlacementRunCommand:
        write.match(find_placement(connection, placement).version)
        return build(connection)

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_placement(connection, placement)
        return Answer(202, shown(row), {"Location": f"/api/v1/placements/{placement}"})

    return write.run(PLACEMENT, changes.event_stream(placement), matched, answer)
