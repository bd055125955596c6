"""`/clusters/{cluster}/replication`: how well a cluster is replicated, and what to do about it.

It follows by itself; what is observed is not kept, so there is no `?at=`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from backend.callers import STATUS
from backend.deciders import LEADER_ELECTIONS
from backend.dispatch import Directed
from backend.domain.access import Action, Caller, may, refusal
from backend.domain.errors import DomainError, NotFound
from backend.domain.leader_elections import event_stream
from backend.eventlog.recorded import Metadata
from backend.queries.broker_presence import read_brokers
from backend.queries.clusters import ClusterRow, get_cluster
from backend.queries.placement_policies import find_policy
from backend.queries.naming import streams_of_topics
from backend.queries.replication import find_replication
from backend.tracing.electing import Election, by_reason, elect_preferred
from backend.web import templates
from backend.web.figures import counted
from backend.web.forms import Form
from backend.web.pages import PageRoute, enter
from backend.web.placement_policy_view import PolicyView
from backend.web.placements_page import PLACEMENTS
from backend.web.replication_view import ReplicationView
from backend.web.same_change import curl
from backend.web.services import ConsoleServices, Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REPLICATION = "/clusters/{cluster}/replication"
TEMPLATE = "replication.html"


@router.get(REPLICATION)
def replication_page(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """The page."""
    return _shown(request, services, enter(viewer, Action.READ_ESTATE), cluster)


@router.get(REPLICATION + "/-live")
def replication_live(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """What changes on it."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = _context(request, services, caller, cluster)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", {**context, "refused": None, "done": None}))


@router.post(REPLICATION + "/-elect")
def elect(cluster: str, request: Request, services: Shared, viewer: Viewer, _: Form) -> Response:
    """Have preferred brokers lead where they are in sync, and say what came of it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    with services.reading() as connection:
        row = get_cluster(connection, cluster)
    if row is None:
        raise _unknown(cluster)
    try:
        done = _elect(request, services, caller, row)
    except DomainError as error:
        return _shown(request, services, caller, cluster, refused=error.detail, status=STATUS[error.kind])
    return _shown(request, services, caller, cluster, done=_said(done))


def _elect(request: Request, services: ConsoleServices, caller: Caller, row: ClusterRow) -> Election:
    metadata = Metadata(actor=caller.name, request_id=request.state.request_id)
    done = elect_preferred(row, None, services.config.probe_timeout_seconds, dry_run=False)
    directed = Directed(LEADER_ELECTIONS, event_stream(row.name), done.command(row.name, None), metadata)
    services.dispatcher.execute_many(lambda _: [directed], time=datetime.now(UTC))
    return done


def _said(done: Election) -> str:
    what = f"Elected for {counted(len(done.elected), 'partition')}; {done.already:,} were led so already."
    left = sorted(by_reason(done.refused).items())
    return " ".join([what, *(f"{counted(len(places), 'partition')} not: {reason}." for reason, places in left)])


def _shown(
    request: Request,
    services: ConsoleServices,
    caller: Caller,
    cluster: str,
    *,
    refused: str | None = None,
    done: str | None = None,
    status: int = 200,
) -> Response:
    context = _context(request, services, caller, cluster)
    return templates.page(TEMPLATE, {**context, "refused": refused, "done": done}, status)


def _context(request: Request, services: ConsoleServices, caller: Caller, cluster: str) -> dict[str, object]:
    with services.reading() as connection:
        row = get_cluster(connection, cluster)
        if row is None:
            raise _unknown(cluster)
        view = ReplicationView(row=row, found=find_replication(connection, row.kafka_cluster_id))
        policy = PolicyView(
            policy=find_policy(connection, cluster).policy,
            seen=read_brokers(connection, row.kafka_cluster_id),
            settled=timedelta(seconds=services.config.broker_settled_seconds),
        )
        view = replace(view, streams=streams_of_topics(connection, row.name, view.topics_named))
    denied = refusal(caller, Action.CHANGE_ESTATE)
    return {
        **frame(request, caller),
        "view": view,
        "policy": policy,
        "trail": [PLACEMENTS],
        "may_change": may(caller, Action.CHANGE_ESTATE),
        "why_not": None if denied is None else denied.detail,
        "same_command": f"treeline replication elect-leaders {cluster}",
        "same_curl": curl("POST", f"/api/v1/clusters/{cluster}/elect-preferred-leaders"),
    }


def _unknown(cluster: str) -> NotFound:
    return NotFound(f"there is no cluster {cluster[:60]!a}")
