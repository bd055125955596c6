"""`…/streams/{s}/figures`: records, sizes, rates and leaders of a stream, from the brokers of its clusters."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import SharedServices, plausible_names
from backend.api.tenants.streams import In
from backend.api.tenants.tenants import ENVIRONMENT
from backend.cluster_requests.stream_figures import ClusterFigures, FiguresReader, figures_places
from backend.domain.access.access import Action, may
from backend.domain.topics.stream_figures import PartitionFigures

router = APIRouter(
    prefix=f"/tenants{ENVIRONMENT}/streams", tags=["streams"], dependencies=[Depends(plausible_names)]
)


@router.get("/{stream}/figures", openapi_extra=needs(Action.READ_TENANT))
def get_figures(
    place: In, stream: str, request: Request, services: SharedServices, caller: Asking
) -> dict[str, Any]:
    """Show a stream's figures on every cluster: records, sizes, rates, newest timestamps, partitions.

    Brokers are asked, for a few seconds at most; a cluster that does not answer has `problem` and no figures.
    `records` counts offsets between start and end: transaction markers and compacted records count as well.
    `records_per_second` needs two observations: it is null in the first answer. Ids of brokers are shown to
    readers of the estate.
    """
    with services.reading() as connection:
        row = place.find(connection, stream)
        places = figures_places(connection, row)
    reader: FiguresReader = request.app.state.figures
    sees_brokers = may(caller, Action.READ_ESTATE)
    items = [_shown(each, sees_brokers=sees_brokers) for each in reader.read(caller.name, row.stream, places)]
    return {"stream": row.stream, "items": items, "next_cursor": None}


def _shown(found: ClusterFigures, *, sees_brokers: bool) -> dict[str, Any]:
    figures, rate = found.figures, found.rate
    return {
        "cluster": found.cluster,
        "topic": found.topic,
        "problem": found.problem or None,
        "detail": found.detail if sees_brokers else None,
        "records": figures and figures.records,
        "size_bytes": figures and figures.size_bytes,
        "disk_bytes": figures and figures.disk_bytes,
        "sizes_missing": (figures.unsized or None) if figures and sees_brokers else None,
        "newest_timestamp_ms": figures and figures.newest_ms,
        "records_per_second": rate and round(rate.records_per_second, 3),
        "rate_seconds": rate and round(rate.over_seconds, 1),
        "replication_factor": figures and figures.replication_factor,
        "partitions_in_sync": figures and figures.in_sync,
        "partitions": [_partition(each, sees_brokers=sees_brokers) for each in figures.partitions]
        if figures
        else [],
    }


def _partition(each: PartitionFigures, *, sees_brokers: bool) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "has_leader": each.leader is not None,
        "leader": each.leader if sees_brokers else None,
        "replicas": list(each.replicas) if sees_brokers else None,
        "isr": list(each.isr) if sees_brokers else None,
        "replica_count": len(each.replicas),
        "isr_count": len(each.isr),
        "start_offset": each.start_offset,
        "end_offset": each.end_offset,
        "records": each.records,
        "size_bytes": each.size_bytes,
        "disk_bytes": each.disk_bytes,
        "newest_timestamp_ms": each.newest_ms,
    }
