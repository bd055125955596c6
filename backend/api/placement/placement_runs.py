"""`/placements/{id}/apply` and related routes: execute a plan, change its limits, pause, cancel and roll back."""

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
    """Limits of moving replicas."""

    bytes_per_second: int | None = Field(
        None,
        ge=1,
        le=HIGHEST_RATE,
        description="Replication throttle of each broker, sending and receiving; null: no throttle.",
    )
    moves_per_broker: int = Field(
        RunLimits.moves_per_broker,
        ge=1,
        le=MOST_MOVES,
        description="Concurrent moves that a broker takes part in.",
    )
    partitions_at_once: int = Field(
        RunLimits.partitions_at_once, ge=1, le=MOST_MOVES, description="Partitions that move concurrently."
    )

    def limits(self) -> RunLimits:
        """Return all limits; omitted ones have their defaults."""
        return RunLimits(**self.named())

    def named(self) -> NamedLimits:
        """Return the limits that were sent."""
        sent: NamedLimits = {}
        if "bytes_per_second" in self.model_fields_set:
            sent["bytes_per_second"] = self.bytes_per_second
        if "moves_per_broker" in self.model_fields_set:
            sent["moves_per_broker"] = self.moves_per_broker
        if "partitions_at_once" in self.model_fields_set:
            sent["partitions_at_once"] = self.partitions_at_once
        return sent


class Applying(HowFast):
    """Digest of the reviewed plan, and limits of the run."""

    digest: str = Field(max_length=200, description="Digest of the plan that was reviewed.")


@router.post("/{placement}/apply", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def apply_placement(placement: str, body: Applying, write: Writing) -> Response:
    """Move replicas as planned, one replica of a partition at a time.

    While the placement is being applied, this changes its limits; omitted limits stay as they are. If the cluster
    has changed since the plan was made, nothing is moved, and `reason` says what has changed.
    """
    limits, digest = body.named(), body.digest

    return _carry_out(placement, write, lambda connection: changes.start_applying(connection, digest, limits))


@router.post("/{placement}/pause", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def pause_placement(placement: str, write: Writing) -> Response:
    """Begin no further moves; ongoing moves continue."""
    return _carry_out(placement, write, lambda _: Pause())


@router.post("/{placement}/resume", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def resume_placement(placement: str, write: Writing) -> Response:
    """Resume a paused placement."""
    return _carry_out(placement, write, lambda _: Resume())


@router.post("/{placement}/cancel", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def cancel_placement(placement: str, write: Writing) -> Response:
    """End the run: ongoing moves are cancelled, completed moves stay. It can be applied again or rolled back."""
    return _carry_out(placement, write, lambda _: Cancel())


@router.post("/{placement}/rollback", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def roll_placement_back(placement: str, write: Writing, body: HowFast | None = None) -> Response:
    """Move replicas back to where they were when the plan was made, from wherever they are.

    Omitted limits stay as they are.
    """
    limits: NamedLimits = {} if body is None else body.named()

    return _carry_out(placement, write, lambda connection: changes.start_rollback(connection, limits))


def _carry_out(placement: str, write: Write, build: changes.BuildRun) -> Response:
    def matched(connection: Connection) -> PlacementRunCommand:
        write.match(find_placement(connection, placement).version)
        return build(connection)

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_placement(connection, placement)
        return Answer(202, shown(row), {"Location": f"/api/v1/placements/{placement}"})

    return write.run(PLACEMENT, changes.event_stream(placement), matched, answer)
