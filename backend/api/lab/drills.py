"""`/drills/replication`: drills of the replication lab. A run is simulated: no cluster is involved.

Nothing is recorded.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from backend.api.frame.access import needs
from backend.api.frame.problems import problem
from backend.api.frame.requests import Body
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.replication_lab.model.configuration import InvalidDrill
from backend.replication_lab.model.history import IN_WORDS
from backend.replication_lab.model.rules import FAITHFUL, FIXED, MODES
from backend.replication_lab.runs.drills import LARGEST_SEED, drill, drill_schedule, summary
from backend.replication_lab.runs.schedules import MOST_FAULTS
from backend.replication_lab.scenarios import SCENARIOS

router = APIRouter(prefix="/drills/replication", tags=["drills"])

# The lab refuses invalid values with a sentence that says what is valid; the schema has the limits, too.
Mode = Annotated[
    str,
    Query(
        max_length=100,
        description="Rules of the protocol: the documents' own, or those that Kafka has added since.",
        json_schema_extra={"enum": list(MODES)},
    ),
]
Seed = Annotated[
    int,
    Query(
        description="Seed of the simulated clock; the same seed gives the same run.",
        json_schema_extra={"minimum": 0, "maximum": LARGEST_SEED},
    ),
]
Frames = Annotated[bool, Query(description="Include the state of brokers, store and network after each step.")]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_drills() -> dict[str, Any]:
    """List the scenarios with the expected result in each mode, the modes, and the invariants."""
    return {
        "scenarios": [summary(each) for each in SCENARIOS.values()],
        "modes": list(MODES),
        "invariants": {invariant.value: words for invariant, words in IN_WORDS.items()},
    }


class AskedSchedule(Body):
    """A configuration and its faults; the lab checks them."""

    brokers: int = 3
    replication_factor: int = 3
    min_isr: int = 2
    producers: int = 1
    acks_all: bool = True
    gives_way: bool = True
    unclean_election: bool = False
    faults: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=MOST_FAULTS,
        description="Faults, each with `at_ms`, `fault`, `broker`, `for_ms`, and `other` for a cut connection.",
    )


@router.post("", openapi_extra=needs(Action.READ_ESTATE))
def play_schedule(
    body: AskedSchedule, mode: Mode = FIXED.mode, seed: Seed = 1, frames: Frames = False
) -> Response:
    """Play a schedule of faults while producers send; at most a simulated minute."""
    try:
        played = drill_schedule(body.model_dump(), mode, seed, with_frames=frames)
    except InvalidDrill as why:
        return problem(422, "invalid", "Invalid drill", str(why))
    return JSONResponse(played.document())


@router.get("/{scenario}", openapi_extra=needs(Action.READ_ESTATE))
def play_drill(scenario: str, mode: Mode = FAITHFUL.mode, seed: Seed = 1, frames: Frames = False) -> Response:
    """Play a scenario: return the violated invariant, if any, and the run as a story in the fewest steps."""
    if scenario not in SCENARIOS:
        raise NotFound(f"there is no scenario {scenario[:60]!r}; GET /api/v1/drills/replication lists them")
    try:
        played = drill(scenario, mode, seed, with_frames=frames)
    except InvalidDrill as why:
        wrong = "seed" if mode in MODES else "mode"
        errors = [{"pointer": "", "parameter": wrong, "detail": str(why)}]
        return problem(422, "invalid", "Invalid drill", f"{wrong}: {why}", errors)
    return JSONResponse(played.document())
