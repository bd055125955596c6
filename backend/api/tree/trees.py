"""`/trees/main`: the distribution tree, its distributors and their targets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi import Body as RequestBody
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.changes import trees as changes
from backend.changes.trees import existing_tree
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.domain.tree import routes
from backend.domain.tree.distributor_settings import COMPRESSIONS, DEFAULTS
from backend.queries.distribution import distributors
from backend.queries.history import operations
from backend.queries.tree import trees
from backend.queries.tree.trees import TreeRow

router = APIRouter(prefix="/trees", tags=["trees"], dependencies=[Depends(plausible_names)])


class Target(Body):
    """Leaf that the distributor copies to."""

    target: str


class Primary(Body):
    """Cluster that becomes the only writer of schemas."""

    cluster: str = Field(max_length=300, description="New primary; the current one cancels a move in progress.")
    take_over: bool = Field(False, description="Take over from an unreachable primary without waiting.")


class DistributorChanges(Body):
    """Changes of a distributor; omitted fields stay, and `bytes_per_second` null removes the limit."""

    paused: bool = Field(False, description="Whether the distributor is paused; it keeps its position.")
    bytes_per_second: int | None = Field(
        None,
        description="Maximum bytes of keys, values and headers copied a second, before compression.",
    )
    compression: str = Field(DEFAULTS.compression, description=" | ".join(COMPRESSIONS))


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_trees(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List the trees; an estate has one, named main."""
    row = trees.get_tree(connection, at)
    return listed([row] if row else [], page, lambda tree: tree.name, shown)


@router.get("/main", openapi_extra=needs(Action.READ_ESTATE))
def get_tree(connection: Reading, at: At) -> Response:
    """Get the tree with its coverage proof."""
    row = existing_tree(connection, at)
    return shown_at(row.version, shown(row))


@router.put("/main", openapi_extra=needs(Action.CHANGE_ESTATE))
def replace_tree(
    root: Annotated[Any, RequestBody(description="The root node.")],
    write: Writing,
    primary: Annotated[
        str | None, Query(description="Primary cluster; default: the current one, or the first leaf.")
    ] = None,
) -> Response:
    """Set the tree: 201 the first time, then 200. The same tree again changes nothing."""

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        row = existing_tree(connection)
        headers = {"ETag": etag(row.version)}
        if outcome.events and outcome.version == len(outcome.events):
            return Answer(201, shown(row), {**headers, "Location": f"/api/v1/trees/{row.name}"})
        return Answer(200, shown(row), headers)

    return write.carry_out(changes.replace_tree(root, primary, write.match), answer)


@router.get("/main/distributors", openapi_extra=needs(Action.READ_ESTATE))
def list_distributors(connection: Reading, at: At) -> list[dict[str, Any]]:
    """List all distributors of the tree; observed fields (state, lag, holder) are null with `at`."""
    return distributors.list_distributors(connection, at=at)


@router.get("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.READ_ESTATE))
def get_distributor(cluster: str, level: str, connection: Reading, at: At) -> Response:
    """Get one distributor."""
    tree = existing_tree(connection, at)
    return shown_at(tree.version, _distributor(connection, cluster, _level(level), at))


@router.patch("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.CHANGE_ESTATE))
def change_distributor(cluster: str, level: str, body: DistributorChanges, write: Writing) -> Response:
    """Pause or resume a distributor, limit its rate, or choose the compression of its copies."""
    number = _level(level)
    given = body.model_dump(exclude_unset=True)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        return Answer(200, _distributor(connection, cluster, number), {"ETag": etag(outcome.version)})

    return write.carry_out(changes.change_distributor(cluster, number, given, write.match), answer)


@router.put("/main/targets/{cluster}/{level}", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def switch_target(cluster: str, level: str, body: Target, write: Writing) -> Response:
    """Switch a distributor to another target, a leaf of its sibling subtree; 200 if it already has this target."""
    number = _level(level)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        headers = {"ETag": etag(outcome.version)}
        shape = {"cluster": cluster, "level": number, "target": body.target}
        if not outcome.events:
            return Answer(200, {**shape, "previous": body.target, "operation": None}, headers)
        previous = outcome.events[0].data["previous"]
        if write.dry_run:
            return Answer(200, {**shape, "previous": previous, "operation": None}, headers)
        operation = operations.operation_id(outcome.events[0])
        headers["Location"] = f"/api/v1/operations/{operation}"
        return Answer(202, {**shape, "previous": previous, "operation": operation}, headers)

    return write.carry_out(changes.switch_target(cluster, number, body.target, write.match), answer)


@router.put("/main/primary", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def move_primary(body: Primary, write: Writing) -> Response:
    """Move the primary to another cluster, once that has all schemas; 200 if it is the primary, or becoming it."""

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        headers = {"ETag": etag(outcome.version)}
        previous = existing_tree(connection).primary_cluster
        shape = {"cluster": body.cluster, "previous": previous, "take_over": body.take_over, "operation": None}
        if write.dry_run or not outcome.events or previous == body.cluster:
            return Answer(200, shape, headers)
        operation = operations.operation_id(outcome.events[0])
        headers["Location"] = f"/api/v1/operations/{operation}"
        return Answer(202, {**shape, "operation": operation}, headers)

    return write.carry_out(changes.move_primary(body.cluster, body.take_over, write.match), answer)


def shown(row: TreeRow) -> dict[str, Any]:
    """Return a tree in the form of an answer."""
    root = row.shape
    proof = routes.coverage(root, row.targets)
    return {
        "name": row.name,
        "root": row.root,
        "primary_cluster": row.primary_cluster,
        "primary_move": None if row.move is None else asdict(row.move),
        "coverage": {"proven": proof.proven, "pairs": proof.pairs},
        "position": row.position,
    }


def _level(text: str) -> int:
    """Parse the level in a path; 0, which no distributor has, if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0


def _distributor(connection: Connection, cluster: str, level: int, at: int | None = None) -> dict[str, Any]:
    for row in distributors.read_distributors(connection, at):
        if (row.cluster, row.level) == (cluster, level):
            return row.document()
    raise NotFound(f"there is no distributor of cluster {cluster!r} at level {level}")
