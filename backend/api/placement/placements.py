"""`/placements`: plans for the replicas of clusters: request, review and export them."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, Paging, Reading, Writing, listed, shown_at
from backend.changes import placements as changes
from backend.changes.placements import PlacementChange
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.placement.placement_aims import MOST_NAMED, Aims
from backend.domain.placement.placement_runs import HAS_PLAN, RUNNING
from backend.placement.errors import PlacementInvalid
from backend.placement.reading import parse
from backend.queries.placement import placement_runs
from backend.queries.placement import placements as queries
from backend.queries.placement.placements import PlacementRow, find_placement

router = APIRouter(prefix="/placements", tags=["placements"])


class NewPlacement(Body):
    """A request for a plan, or a reassignment to use as the plan. Omitted options keep the present state."""

    cluster: str = Field(max_length=200)
    target_brokers: list[int] | None = Field(
        None, max_length=MOST_NAMED, description="Brokers that may hold replicas (default: all)."
    )
    replication_factor: int | dict[str, int] | Literal["declared"] | None = Field(
        None,
        description="One for all topics, or by topic; `declared`: the factors that streams declare, limited to "
        "the number of brokers.",
    )
    excluded_topics: list[str] = Field(
        default_factory=list, max_length=MOST_NAMED, description="Topics that stay as they are."
    )
    no_leaders: list[int] = Field(
        default_factory=list, max_length=MOST_NAMED, description="Brokers that may not be preferred leaders."
    )

    reassignment: dict[str, Any] | None = Field(
        None,
        description="Reassignment in the format of kafka-reassign-partitions.sh, to be used as the plan.",
    )

    def change(self, placement: str) -> PlacementChange:
        """Return the change to make. Raises ValueInvalid."""
        if self.reassignment is None:
            return changes.request_placement(placement, self.cluster, self.aims())
        wishes = self.model_fields_set - {"cluster", "reassignment"}
        refuse([FieldError(f"/{name}", "cannot be combined with a reassignment") for name in sorted(wishes)])
        return changes.submit_reassignment(placement, self.cluster, self.reassignment)

    def aims(self) -> Aims:
        """Convert the body to the domain's options."""
        factor = self.replication_factor
        return Aims(
            target_brokers=None if self.target_brokers is None else tuple(self.target_brokers),
            replication_factor=factor if isinstance(factor, int) else None,
            replication_factors=factor if isinstance(factor, dict) else {},
            as_declared=factor == "declared",
            excluded_topics=tuple(self.excluded_topics),
            no_leaders=tuple(self.no_leaders),
        )


Which = Annotated[
    Literal["planned", "present"],
    Query(description="`planned`: the planned replicas; `present`: those before the plan, for a rollback."),
]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_placements(
    connection: Reading,
    at: At,
    page: Paging,
    cluster: Annotated[str | None, Query(description="Only placements of this cluster.")] = None,
) -> dict[str, Any]:
    """List all placements, the newest first."""
    before = -page.after if isinstance(page.after, int) else None
    rows = queries.list_placements(connection, at, cluster=cluster, before=before, most=page.limit + 1)
    return listed(rows, page, lambda row: -row.requested_at_position, shown)


async def _refuse_duplicate_names(request: Request) -> None:
    # FastAPI's JSON parser silently keeps the last of two values with the same name.
    body = await request.body()
    if not body:
        return
    try:
        # The body may have megabytes, which must not block the event loop.
        await run_in_threadpool(parse, body)
    except PlacementInvalid as error:
        raise ValueInvalid(str(error)) from error


@router.post(
    "",
    status_code=202,
    openapi_extra=needs(Action.CHANGE_ESTATE),
    dependencies=[Depends(_refuse_duplicate_names)],
)
def request_placement(body: NewPlacement, write: Writing) -> Response:
    """Request a plan, or submit a reassignment to be checked. A worker reads the cluster; nothing is moved."""
    placement = uuid.uuid4().hex[:12]

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_placement(connection, placement)
        return Answer(202, shown(row), {"Location": f"/api/v1/placements/{placement}"})

    return write.carry_out(body.change(placement), answer)


@router.get("/{placement}", openapi_extra=needs(Action.READ_ESTATE))
def get_placement(placement: str, connection: Reading, at: At) -> Response:
    """Return a placement; its `plan` is the output of `treeline placement plan --json` without partitions."""
    row = find_placement(connection, placement, at)
    plan = None
    if row.state in HAS_PLAN:
        documents = queries.read_documents(connection, placement)
        plan = {name: value for name, value in documents.plan.items() if name != "partitions"}
    now = placement_runs.find_progress(connection, placement) if row.state in RUNNING else None
    return shown_at(row.version, {**shown(row), "plan": plan, "now": now})


@router.get("/{placement}/reassignment", openapi_extra=needs(Action.READ_ESTATE))
def get_reassignment(placement: str, connection: Reading, which: Which = "planned") -> dict[str, Any]:
    """Return the partitions that change, as `kafka-reassign-partitions.sh --reassignment-json-file` reads them."""
    find_placement(connection, placement)
    documents = queries.read_documents(connection, placement)
    now, then = (
        {(row["topic"], row["partition"]): row["replicas"] for row in document["partitions"]}
        for document in (documents.question, documents.plan)
    )
    shown_ones = then if which == "planned" else now
    changed = [place for place in sorted(then) if then[place] != now[place]]
    rows = [
        {"topic": topic, "partition": number, "replicas": shown_ones[topic, number]} for topic, number in changed
    ]
    return {"version": 1, "partitions": rows}


def shown(row: PlacementRow) -> dict[str, Any]:
    """Return a placement as responses show it."""
    aims = asdict(row.aims)
    factors = aims.pop("replication_factors")
    return {
        "id": row.id,
        "cluster": row.cluster,
        "state": str(row.state),
        **aims,
        "replication_factor": factors or row.aims.replication_factor,
        "given": row.given,
        "digest": row.digest,
        "summary": row.summary,
        "reason": row.reason,
        "run": row.run,
        "limits": None if row.limits is None else asdict(row.limits),
        "report": row.report,
        "proposal": None if row.proposal is None else {**asdict(row.proposal), "held_back": row.held_back},
    }
