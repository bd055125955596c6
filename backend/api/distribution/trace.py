"""`/trace`: the origin and the copies of one record."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from backend.api.frame.access import Asking, check, needs
from backend.api.frame.requests import SharedServices
from backend.cluster_requests import trace_facts, tracing
from backend.cluster_requests.tracing import Trace, TracedCopy
from backend.domain.access.access import Action
from backend.domain.distribution.trace import hops
from backend.domain.records import copy_flags

router = APIRouter(tags=["trace"])

HIGHEST = 2**63 - 1


@router.get("/trace", openapi_extra=needs(Action.READ_TENANT))
def get_trace(
    services: SharedServices,
    caller: Asking,
    cluster: Annotated[str, Query(description="A cluster that has the record.", max_length=300)],
    stream: Annotated[
        str, Query(description="tenant/instance/environment/stream, or an internal stream.", max_length=1200)
    ],
    partition: Annotated[int, Query(ge=0, le=2**31 - 1)],
    offset: Annotated[int, Query(ge=0, le=HIGHEST, description="The record's offset on that cluster.")],
) -> dict[str, Any]:
    """Trace one record: its origin, its copies on all clusters of the tree, and where and why it is missing.

    Every cluster has a few seconds to answer; one that does not is in `missing` with state `unknown`.
    """
    check(caller, Action.READ_TENANT, stream, trace_facts.no_stream(stream))
    with services.reading() as connection:
        known = trace_facts.read(connection, services.config, cluster, stream, partition)
    return {"stream": stream, "partition": partition, **shown(tracing.run(known, cluster, offset))}


def shown(found: Trace) -> dict[str, Any]:
    """Return a trace in the form of an answer."""
    origin = found.origin
    return {
        "origin": {
            "cluster": origin.cluster,
            "number": origin.number,
            "offset": origin.offset,
            "timestamp_ms": origin.timestamp_ms,
            "present": origin.present,
        },
        "copies": [_shown_copy(copy) for copy in found.copies],
        "missing": [
            {"cluster": each.cluster, "state": each.state, "reason": each.reason} for each in found.missing
        ],
    }


def _shown_copy(copy: TracedCopy) -> dict[str, Any]:
    return {
        "cluster": copy.cluster,
        "offset": copy.offset,
        "copy_flags": copy_flags.text(copy.flags),
        "hops": hops(copy.flags),
        "from": copy.came_from and copy.came_from.cluster,
        "from_certain": copy.came_from is not None and copy.came_from.certain,
        "arrived_at_ms": copy.arrived_at_ms,
    }
