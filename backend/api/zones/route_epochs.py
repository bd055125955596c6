"""`/route-epochs`: epochs of the router channel, and the reports of the zone router's nodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field, model_validator

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, DryRun, Reading, SharedServices
from backend.domain.access.access import Action
from backend.queries.zones.route_epochs import EpochsRow, find_epochs
from backend.queries.zones.zone_router import (
    Cache,
    ColdReads,
    Hop,
    NodeReport,
    NodeRow,
    forget_node,
    list_nodes,
    store_report,
)

router = APIRouter(prefix="/route-epochs", tags=["zones"])

_MOST = 2**53
"""Largest accepted count; every JSON parser keeps integers exact up to here."""
_SERVER = r"^[^\s,/]+:[0-9]{1,5}$"
_MOST_BROKERS, _MOST_CLUSTERS, _MOST_HOPS = 10_000, 1_000, 5_000

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Broker = Annotated[int, Field(ge=0, lt=2**31)]


class HopTold(Body):
    """Bytes of one plane that went from one zone to another, or stayed in it."""

    plane: Literal["produce", "fetch", "metadata", "group", "transaction", "route", "other"]
    from_zone: Name
    to_zone: Name
    bytes: Count


class ColdReadsTold(Body):
    """Cold reads, which the leader answered, and the bytes of their answers."""

    reads: Count = 0
    bytes: Count = 0


class CacheTold(Body):
    """Size of the read cache and its limit."""

    bytes: Count = 0
    most_bytes: Count = 0


class Report(Body):
    """A node's report; counters start at 0 when its process starts."""

    node: Name = Field(description="The node's name in the router file.")
    zone: Name
    serves: list[Literal["proxy", "main"]] = Field(min_length=1, max_length=2)
    cluster: Name | None = Field(None, description="Main only: cluster of its broker.")
    broker: Broker | None = Field(None, description="Main only: id of the broker that it runs beside.")
    reported_epoch: Count | None = Field(
        None,
        description="Main only: highest epoch of which the main has all data in block objects; null if it cannot "
        "tell, in which case `committed` does not rise.",
    )
    open_streams: int = Field(
        0, ge=0, lt=2**31, description="Main only: number of open streams (clients with requests in progress)."
    )
    stands_for: dict[Name, Annotated[list[Broker], Field(max_length=_MOST_BROKERS)]] = Field(
        default_factory=dict,
        max_length=_MOST_CLUSTERS,
        description="Proxy only: ids of the brokers that it serves in its zone, by cluster.",
    )
    bootstrap_servers: dict[Name, Annotated[str, Field(max_length=300, pattern=_SERVER)]] = Field(
        default_factory=dict,
        max_length=_MOST_CLUSTERS,
        description="Proxy only: bootstrap servers for clients of its zone, by cluster; discovery returns them.",
    )
    traffic: list[HopTold] = Field(default_factory=list, max_length=_MOST_HOPS)
    cold_reads: ColdReadsTold = Field(default_factory=ColdReadsTold)
    cache: CacheTold = Field(default_factory=CacheTold)

    @model_validator(mode="after")
    def _check_main_fields(self) -> Report:
        is_main = "main" in self.serves
        if is_main != (self.cluster is not None) or is_main != (self.broker is not None):
            raise ValueError("cluster and broker must both be given for a main, and for no other node")
        if self.reported_epoch is not None and not is_main:
            raise ValueError("reported_epoch may be given for a main only")
        return self

    def report(self) -> NodeReport:
        """Return the report as it is stored."""
        parts = {"traffic", "cold_reads", "cache"}
        return NodeReport(
            **self.model_dump(exclude=parts),
            traffic=[Hop(**each.model_dump()) for each in self.traffic],
            cold_reads=ColdReads(**self.cold_reads.model_dump()),
            cache=Cache(**self.cache.model_dump()),
        )


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def get_route_epochs(connection: Reading, at: At) -> dict[str, Any]:
    """Return the current, fenced and committed epoch, and each node's progress.

    With `at`, nodes are null, as the history of reports is not stored.
    """
    nodes = None if at is not None else [_node(each) for each in list_nodes(connection)]
    return {**epochs_shown(find_epochs(connection, at)), "nodes": nodes}


@router.post("/reports", openapi_extra=needs(Action.CHANGE_ESTATE))
def report(body: Report, services: SharedServices, dry_run: DryRun = False) -> dict[str, Any]:
    """Store a node's report, which it sends every two seconds; return the epochs and the unreachable nodes."""
    with services.engine.connect() as connection:
        store_report(connection, body.report())
        answer = {
            **epochs_shown(find_epochs(connection)),
            "dead": [each.report.node for each in list_nodes(connection) if each.is_unreachable],
        }
        if not dry_run:
            connection.commit()
    return answer


@router.delete("/reports/{node}", status_code=204, openapi_extra=needs(Action.CHANGE_ESTATE))
def forget_report(node: str, services: SharedServices, dry_run: DryRun = False) -> Response:
    """Forget an unreachable node that will not return: `committed` no longer waits for its open streams."""
    with services.engine.connect() as connection:
        forget_node(connection, node)
        if not dry_run:
            connection.commit()
    return Response(status_code=204)


def epochs_shown(row: EpochsRow) -> dict[str, int]:
    """Return the epochs as responses show them."""
    return {"current": row.current, "fenced": row.fenced, "committed": row.committed}


def _node(row: NodeRow) -> dict[str, Any]:
    return {
        "node": row.report.node,
        "reported_epoch": row.report.reported_epoch,
        "fenced": row.is_unreachable,
        "open_streams": row.report.open_streams,
    }
