"""`/trees/main`: the distribution tree, its distributors and their targets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi import Body as RequestBody
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.access import needs
from backend.api.requests import (
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
from backend.deciders import TREE
from backend.dispatch import Answer, Outcome
from backend.domain import formats, routes, tree_shape
from backend.domain.access import Action
from backend.domain.application_groups import ClusterGroups, check_joining
from backend.domain.distributor_settings import COMPRESSIONS, DEFAULTS, ChangeDistributor
from backend.domain.errors import NotFound, StateConflict
from backend.domain.formats import ClusterFormats
from backend.domain.primary_move import MovePrimary
from backend.domain.tree import ReplaceTree, SwitchTarget, clusters_of
from backend.queries import clusters, distributors, operations, trees
from backend.queries.application_groups import declared_groups
from backend.queries.naming import declared_streams
from backend.queries.switches import moving_switches
from backend.queries.trees import MAIN, TreeRow

router = APIRouter(prefix="/trees", tags=["trees"], dependencies=[Depends(plausible_names)])
STREAM = f"tree-{MAIN}"


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
    row = _existing(trees.get_tree(connection, at))
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

    def build(connection: Connection) -> ReplaceTree:
        row = trees.get_tree(connection)
        write.match(row.version if row else None)
        known = frozenset(cluster.name for cluster in clusters.list_clusters(connection))
        _check_names_on_joining(connection, row, root, known)
        _check_switches_on_leaving(connection, root, known)
        return ReplaceTree(root=root, known_clusters=known, primary_cluster=primary)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        row = _existing(trees.get_tree(connection))
        headers = {"ETag": etag(row.version)}
        if outcome.events and outcome.version == len(outcome.events):
            return Answer(201, shown(row), {**headers, "Location": f"/api/v1/trees/{row.name}"})
        return Answer(200, shown(row), headers)

    return write.run(TREE, STREAM, build, answer)


@router.get("/main/distributors", openapi_extra=needs(Action.READ_ESTATE))
def list_distributors(connection: Reading, at: At) -> list[dict[str, Any]]:
    """Every distributor of the tree; what is observed of them (state, lag, holder) is null under `at`."""
    return distributors.list_distributors(connection, at=at)


@router.get("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.READ_ESTATE))
def get_distributor(cluster: str, level: str, connection: Reading, at: At) -> Response:
    """One distributor."""
    tree = _existing(trees.get_tree(connection, at))
    return shown_at(tree.version, _distributor(connection, cluster, _level(level), at))


@router.patch("/main/distributors/{cluster}/{level}", openapi_extra=needs(Action.CHANGE_ESTATE))
def change_distributor(cluster: str, level: str, body: DistributorChanges, write: Writing) -> Response:
    """Pause or resume a distributor, limit its bandwidth, choose how its copies are compressed."""
    number = _level(level)
    given = body.model_dump(exclude_unset=True)

    def build(connection: Connection) -> ChangeDistributor:
        write.match(_existing(trees.get_tree(connection)).version)
        clear_limit = given.get("bytes_per_second", 0) is None
        return ChangeDistributor(cluster=cluster, level=number, clear_limit=clear_limit, **given)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        return Answer(200, _distributor(connection, cluster, number), {"ETag": etag(outcome.version)})

    return write.run(TREE, STREAM, build, answer)


@router.put("/main/targets/{cluster}/{level}", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def switch_target(cluster: str, level: str, body: Target, write: Writing) -> Response:
    """Let a distributor copy to another leaf of its sibling subtree; 200 if it does already."""
    number = _level(level)

    def build(connection: Connection) -> SwitchTarget:
        row = _existing(trees.get_tree(connection))
        write.match(row.version)
        return SwitchTarget(cluster=cluster, level=number, target=body.target)

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

    return write.run(TREE, STREAM, build, answer)


@router.put("/main/primary", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def move_primary(body: Primary, write: Writing) -> Response:
    """Make another cluster the only writer of schemas, once it has them all; 200 if it is so, or being done."""

    def build(connection: Connection) -> MovePrimary:
        write.match(_existing(trees.get_tree(connection)).version)
        return MovePrimary(cluster=body.cluster, take_over=body.take_over)

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        headers = {"ETag": etag(outcome.version)}
        previous = _existing(trees.get_tree(connection)).primary_cluster
        shape = {"cluster": body.cluster, "previous": previous, "take_over": body.take_over, "operation": None}
        if write.dry_run or not outcome.events or previous == body.cluster:
            return Answer(200, shape, headers)
        operation = operations.operation_id(outcome.events[0])
        headers["Location"] = f"/api/v1/operations/{operation}"
        return Answer(202, {**shape, "operation": operation}, headers)

    return write.run(TREE, STREAM, build, answer)


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


def _check_names_on_joining(
    connection: Connection, row: TreeRow | None, root: object, known: frozenset[str]
) -> None:
    """Refuse a cluster that joins and on which the tree's streams and groups could not all have own names."""
    # Parsed before it is walked: only what is a tree is known not to be endlessly deep.
    names = tree_shape.leaves(tree_shape.parse(root, known))
    joining = set(names) - (clusters_of(row.root) if row else frozenset())
    if not joining:
        return
    streams, groups = declared_streams(connection, MAIN), declared_groups(connection, MAIN)
    for cluster in clusters.list_clusters(connection):
        if cluster.name in joining:
            of = ClusterFormats(cluster.name, cluster.topic_format, cluster.subject_format)
            pointer = _pointer(root, cluster.name) or ""
            formats.check_deployment(streams, of, pointer)
            check_joining(groups, ClusterGroups(cluster.name, cluster.group_format), pointer)


def _check_switches_on_leaving(connection: Connection, root: object, known: frozenset[str]) -> None:
    """Refuse a tree without a leaf that clients are just moved from, or to."""
    names = tree_shape.leaves(tree_shape.parse(root, known))
    for switch in moving_switches(connection):
        for cluster in (switch.source, switch.target):
            if cluster not in names:
                raise StateConflict(
                    f"switch {switch.id} moves clients from {switch.source} to {switch.target}; "
                    f"wait for it, or abort it, before {cluster} leaves the tree"
                )


def _pointer(node: Any, cluster: str, at: str = "") -> str | None:
    """JSON pointer of the leaf of a cluster."""
    if "cluster" in node:
        return f"{at}/cluster" if node["cluster"] == cluster else None
    found = (_pointer(child, cluster, f"{at}/children/{n}") for n, child in enumerate(node["children"]))
    return next((place for place in found if place), None)


def _existing(row: TreeRow | None) -> TreeRow:
    if row is None:
        raise NotFound("there is no tree main (yet); PUT /trees/main sets it")
    return row
