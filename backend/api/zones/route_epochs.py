"""`/route-epochs`: the epochs of the zone router's channel, and the reports of its nodes."""

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
    keep_report,
    list_nodes,
)

router = APIRouter(prefix="/route-epochs", tags=["zones"])

_MOST = 2**53
"""Of numbers that only grow: all that JSON keeps everywhere."""
_SERVER = r"^[^\s,/]+:[0-9]{1,5}$"
_MOST_BROKERS, _MOST_CLUSTERS, _MOST_HOPS = 10_000, 1_000, 5_000

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Broker = Annotated[int, Field(ge=0, lt=2**31)]


class HopTold(Body):
    """Bytes of one plane between two zones, or within one."""

    plane: Literal["produce", "fetch", "metadata", "group", "transaction", "route", "other"]
    from_zone: Name
    to_zone: Name
    bytes: Count


class ColdReadsTold(Body):
    """Reads that went to the leader, and what they gave."""

    reads: Count = 0
    bytes: Count = 0


class CacheTold(Body):
    """How full the cache of reads is, and how full it may be."""

    bytes: Count = 0
    most_bytes: Count = 0


class Report(Body):
    """What a node of the zone router tells of itself; counts are since it began."""

    node: Name = Field(description="Its name in the router's file.")
    zone: Name
    serves: list[Literal["proxy", "main"]] = Field(min_length=1, max_length=2)
    cluster: Name | None = Field(None, description="Of a main: its broker's.")
    broker: Broker | None = Field(None, description="Of a main: the one that it stands beside.")
    reported_epoch: Count | None = Field(
        None,
        description="Of a main: what came under epochs up to it is in block objects; null: it cannot tell, "
        "and `committed` does not rise.",
    )
    open_streams: int = Field(0, ge=0, lt=2**31, description="Of a main: clients that it has not done with.")
    stands_for: dict[Name, Annotated[list[Broker], Field(max_length=_MOST_BROKERS)]] = Field(
        default_factory=dict, max_length=_MOST_CLUSTERS, description="Of a proxy: brokers, by cluster."
    )
    bootstrap_servers: dict[Name, Annotated[str, Field(max_length=300, pattern=_SERVER)]] = Field(
        default_factory=dict,
        max_length=_MOST_CLUSTERS,
        description="Of a proxy: where clients of its zone begin, by cluster; discovery tells them.",
    )
    traffic: list[HopTold] = Field(default_factory=list, max_length=_MOST_HOPS)
    cold_reads: ColdReadsTold = Field(default_factory=ColdReadsTold)
    cache: CacheTold = Field(default_factory=CacheTold)

    @model_validator(mode="after")
    def _of_a_main(self) -> Report:
        is_main = "main" in self.serves
        if is_main != (self.cluster is not None) or is_main != (self.broker is not None):
            raise ValueError("cluster and broker are a main's, which has both")
        if self.reported_epoch is not None and not is_main:
            raise ValueError("reported_epoch is a main's")
        return self

    def taken(self) -> NodeReport:
        """What is kept."""
        parts = {"traffic", "cold_reads", "cache"}
        return NodeReport(
            **self.model_dump(exclude=parts),
            traffic=[Hop(**each.model_dump()) for each in self.traffic],
            cold_reads=ColdReads(**self.cold_reads.model_dump()),
            cache=Cache(**self.cache.model_dump()),
        )


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def get_route_epochs(connection: Reading, at: At) -> dict[str, Any]:
    """The newest epoch, the fenced and the committed one, and how far nodes are; of an earlier position without
    nodes, as what these report is not kept."""
    told = None if at is not None else [_node(each) for each in list_nodes(connection)]
    return {**epochs_shown(find_epochs(connection, at)), "nodes": told}


@router.post("/reports", openapi_extra=needs(Action.CHANGE_ESTATE))
def report(body: Report, services: SharedServices, dry_run: DryRun = False) -> dict[str, Any]:
    """A node tells how far it is, every two seconds or so, and hears of epochs and of nodes that are dead."""
    with services.engine.connect() as connection:
        keep_report(connection, body.taken())
        answer = {
            **epochs_shown(find_epochs(connection)),
            "dead": [each.report.node for each in list_nodes(connection) if each.is_dead],
        }
        if not dry_run:
            connection.commit()
    return answer


@router.delete("/reports/{node}", status_code=204, openapi_extra=needs(Action.CHANGE_ESTATE))
def forget_report(node: str, services: SharedServices, dry_run: DryRun = False) -> Response:
    """A dead node does not come back: `committed` waits for it no more, whatever it had not done with."""
    with services.engine.connect() as connection:
        forget_node(connection, node)
        if not dry_run:
            connection.commit()
    return Response(status_code=204)


def epochs_shown(row: EpochsRow) -> dict[str, int]:
    """Epochs as answers show them."""
    return {"current": row.current, "fenced": row.fenced, "committed": row.committed}


def _node(row: NodeRow) -> dict[str, Any]:
    return {
        "node": row.report.node,
        "reported_epoch": row.report.reported_epoch,
        "fenced": row.is_dead,
        "open_streams": row.report.open_streams,
    }
