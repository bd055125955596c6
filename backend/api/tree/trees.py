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
    """The leaf to copy to."""

    target: str


class Primary(Body):
    """The only writer of schemas."""

    cluster: str = Field(max_length=300, description="The present one ends a move that is under way.")
    take_over: bool = Field(False, description="Whether the present one is dead and not waited for.")


class DistributorChanges(Body):
    """What is to change; fields left out stay, and `bytes_per_second` null takes the limit away."""

    paused: bool = Field(False, description="Whether the distributor waits; it keeps its place.")
    bytes_per_second: int | None = Field(
        None,
        description="Most bytes of keys, values and headers that are copied a second, before compression.",
    )
    compression: str = Field(DEFAULTS.compression, description=" | ".join(COMPRESSIONS))


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_trees(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """The trees; an estate has one, main."""
    row = trees.get_tree(connection, at)
    return listed([row] if row else [], page, lambda tree: tree.name, shown)


@router.get("/main", openapi_extra=needs(Action.READ_ESTATE))
def get_tree(connection: Reading, at: At) -> Response:
    """The tree with its coverage proof."""
    row = existing_tree(connection, at)
    return shown_at(row.version, shown(row))


@router.put("/main", openapi_extra=needs(Action.CHANGE_ESTATE))
def replace_tree(
    root: Annotated[Any, RequestBody(description="The bare root node.")],
    write: Writing,
    primary: Annotated[
        str | None, Query(description="Primary cluster; left out, it stays, or is the first leaf.")
    ] = None,
) -> Response:
    """Set the tree. 201 the first time, then 200; the same tree again changes nothing."""

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        row = existing_tree(connection)
        headers = {"ETag": etag(row.version)}
        if outcome.events and outcome.version == len(outcome.events):
            return Answer(201, shown(row), {**headers, "Location": f"/api/v1/trees/{row.name}"})
        return Answer(200, shown(row), headers)

    return write.carry_out(changes.replace_tree(root, primary, write.match), answer)


@router.get("/main/distributors", openapi_extra=needs(Action.READ_ESTATE))
def list_distributors(connection: Reading, at: At) -> list[dict[str, Any]]:
    """Every distributor of the tree; what is observed of them (state, lag, holder) is null under `at`."""
    return distributors.list_distributors(connection, at=at)


@router.get("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.READ_ESTATE))
def get_distributor(cluster: str, level: str, connection: Reading, at: At) -> Response:
    """One distributor."""
    tree = existing_tree(connection, at)
    return shown_at(tree.version, _distributor(connection, cluster, _level(level), at))


@router.patch("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.CHANGE_ESTATE))
def change_distributor(cluster: str, level: str, body: DistributorChanges, write: Writing) -> Response:
    """Pause or resume a distributor, limit its bandwidth, choose how its copies are compressed."""
    number = _level(level)
    given = body.model_dump(exclude_unset=True)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        return Answer(200, _distributor(connection, cluster, number), {"ETag": etag(outcome.version)})

    return write.carry_out(changes.change_distributor(cluster, number, given, write.match), answer)


@router.put("/main/targets/{cluster}/{level}", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def switch_target(cluster: str, level: str, body: Target, write: Writing) -> Response:
    """Let a distributor copy to another leaf of its sibling subtree; 200 if it does already."""
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
    """Make another cluster the only writer of schemas, once it has them all; 200 if it is so, or being done."""

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
    """A tree as answers show it."""
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
    """The level in a path; 0, which no distributor has, if it is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0


def _distributor(connection: Connection, cluster: str, level: int, at: int | None = None) -> dict[str, Any]:
    for row in distributors.read_distributors(connection, at):
        if (row.cluster, row.level) == (cluster, level):
            return row.document()
    raise NotFound(f"there is no distributor of cluster {cluster!r} at level {level}")
