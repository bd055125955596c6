"""Queries of placements and of their plans' documents, which workers store."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.dialects.postgresql import insert

from backend.domain.base.errors import NotFound
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState, RunLimits
from backend.eventlog.tables import METADATA
from backend.projections.placements import placements
from backend.projections.temporal import as_of

placement_plans = sa.Table(
    "placement_plans",
    METADATA,
    sa.Column("placement", sa.Text, primary_key=True),
    # Compressed JSON: the state that was read of the cluster, and partitions with their planned replicas.
    sa.Column("question", sa.LargeBinary, nullable=False),
    sa.Column("plan", sa.LargeBinary, nullable=False),
)


placement_reassignments = sa.Table(
    "placement_reassignments",
    METADATA,
    sa.Column("placement", sa.Text, primary_key=True),
    # Compressed JSON: the submitted reassignment.
    sa.Column("document", sa.LargeBinary, nullable=False),
)


@dataclass(frozen=True, kw_only=True)
class PlacementRow:
    """The state of a placement."""

    id: str
    cluster: str
    state: PlacementState
    aims: Aims
    given: int | None
    """Number of partitions of a submitted reassignment; None for a computed plan."""
    digest: str | None
    summary: dict[str, Any] | None
    reason: str | None
    run: int
    """Number of runs that have been started."""
    limits: RunLimits | None
    report: dict[str, Any] | None
    proposal: Proposal | None
    """Reason of a worker that requested it; None for other callers."""
    held_back: str | None
    """Reason why it is not applied automatically, although it was proposed for that."""
    requested_at_position: int
    version: int


@dataclass(frozen=True, kw_only=True)
class PlanDocuments:
    """Input and result of a plan, as `treeline placement plan` reads and prints them."""

    question: dict[str, Any]
    plan: dict[str, Any]


def list_placements(
    connection: Connection,
    at: int | None = None,
    *,
    cluster: str | None = None,
    before: int | None = None,
    most: int | None = None,
) -> list[PlacementRow]:
    """Return placements, the newest first.

    `before` restricts them to those requested before that event position; `most` limits their number.
    """
    query = sa.select(placements).where(as_of(placements, at)).order_by(placements.c.requested.desc()).limit(most)
    if cluster is not None:
        query = query.where(placements.c.cluster == cluster)
    if before is not None:
        # A cursor comes from the caller and may be any number.
        query = query.where(placements.c.requested < sa.literal(before, sa.Numeric))
    return [_row(row) for row in connection.execute(query)]


def requested_placements(connection: Connection) -> list[PlacementRow]:
    """Return the placements that a worker must compute, the oldest first."""
    is_requested = placements.c.state == str(PlacementState.REQUESTED)
    query = sa.select(placements).where(as_of(placements, None), is_requested)
    return [_row(row) for row in connection.execute(query.order_by(placements.c.requested))]


def running_placements(connection: Connection) -> list[PlacementRow]:
    """Return the placements that a worker is executing, the oldest first."""
    runs = placements.c.state.in_([str(state) for state in RUNNING])
    query = sa.select(placements).where(as_of(placements, None), runs)
    return [_row(row) for row in connection.execute(query.order_by(placements.c.requested))]


def find_placement(connection: Connection, placement: str, at: int | None = None) -> PlacementRow:
    """Return a placement. Raises NotFound."""
    query = sa.select(placements).where(placements.c.id == placement, as_of(placements, at))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no placement {placement[:60]!r}; GET /placements lists them")
    return _row(row)


def store_documents(connection: Connection, placement: str, documents: PlanDocuments) -> None:
    """Store a plan's documents, in the transaction of the event that records the plan."""
    values = {"question": _packed(documents.question), "plan": _packed(documents.plan)}
    row = insert(placement_plans).values(placement=placement, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["placement"], set_=values))


def read_documents(connection: Connection, placement: str) -> PlanDocuments:
    """Return the documents of a planned placement. Raises NotFound."""
    query = sa.select(placement_plans).where(placement_plans.c.placement == placement)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"placement {placement[:60]!r} has no plan")
    return PlanDocuments(question=_unpacked(row.question), plan=_unpacked(row.plan))


def store_reassignment(connection: Connection, placement: str, document: dict[str, Any]) -> None:
    """Store a submitted reassignment, in the transaction of the event that records it."""
    connection.execute(sa.insert(placement_reassignments).values(placement=placement, document=_packed(document)))


def read_reassignment(connection: Connection, placement: str) -> dict[str, Any]:
    """Return the reassignment that was submitted for a placement. Raises NotFound."""
    query = sa.select(placement_reassignments.c.document).where(placement_reassignments.c.placement == placement)
    packed = connection.execute(query).scalar_one_or_none()
    if packed is None:
        raise NotFound(f"no reassignment was submitted for placement {placement[:60]!r}")
    return _unpacked(packed)


def _proposal(kept: dict[str, Any]) -> Proposal:
    return Proposal(policy=kept["policy"], joined=tuple(kept["joined"]), left=tuple(kept["left"]))


def _packed(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def _unpacked(packed: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


def _row(row: Row[Any]) -> PlacementRow:
    lists = {name: row.aims[name] for name in ("target_brokers", "excluded_topics", "no_leaders")}
    tuples = {name: None if value is None else tuple(value) for name, value in lists.items()}
    return PlacementRow(
        id=row.id,
        cluster=row.cluster,
        state=PlacementState(row.state),
        aims=Aims(**{**row.aims, **tuples}),
        given=row.given,
        digest=row.digest,
        summary=row.summary,
        reason=row.reason,
        run=row.run,
        limits=None if row.limits is None else RunLimits(**row.limits),
        report=row.report,
        proposal=None if row.proposal is None else _proposal(row.proposal),
        held_back=(row.proposal or {}).get("held_back"),
        requested_at_position=row.requested,
        version=row.version,
    )
