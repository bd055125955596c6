"""Desired access of applications on every cluster: ACLs, credentials and quotas of their principals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from backend.domain.access.access_steps import APPLIED, WantedAccess
from backend.domain.access.acls import acls_of
from backend.queries.tenants.applications import ApplicationRow, ClusterApplied, list_applications


def read(connection: Connection) -> Mapping[str, Sequence[WantedAccess]]:
    """Return cluster -> its principals, including those that are still to be removed from it; as of now."""
    found: dict[str, list[WantedAccess]] = defaultdict(list)
    for row in list_applications(connection, deleted=True):
        for each in of_row(row):
            found[each.cluster].append(each)
    return found


def of_row(row: ApplicationRow) -> list[WantedAccess]:
    """Return the access that one application should have on each cluster that has it, or may still have it."""
    gone = row.applied if row.deleted else row.leaving
    present = {} if row.deleted else row.applied
    return [
        *(_present(row, cluster, recorded) for cluster, recorded in present.items()),
        *(_gone(row, cluster, recorded) for cluster, recorded in gone.items()),
    ]


def _gone(row: ApplicationRow, cluster: str, recorded: ClusterApplied) -> WantedAccess:
    return WantedAccess(
        principal=row.principal,
        cluster=cluster,
        revision=0,
        gone=True,
        left=not row.deleted,
        failure=recorded.failure,
        parts=recorded.parts,
    )


def _present(row: ApplicationRow, cluster: str, recorded: ClusterApplied) -> WantedAccess:
    topics = row.topics.get(cluster, {})
    produces = [topics[stream] for stream in row.produces if stream in topics]
    consumes = [topics[stream] for stream in row.consumes if stream in topics]
    acls = acls_of(
        produces,
        consumes,
        row.technical_groups.get(cluster, ()),
        row.transactional_prefix if produces else None,
    )
    quotas = {
        "producer_byte_rate": row.producer_bytes_per_second,
        "consumer_byte_rate": row.consumer_bytes_per_second,
        "request_percentage": row.request_percentage,
    }
    return WantedAccess(
        principal=row.principal,
        cluster=cluster,
        revision=row.revision,
        acls=acls,
        credentials=row.credentials,
        quotas={key: float(value) for key, value in quotas.items() if value is not None},
        applied=recorded.revision if recorded.state == APPLIED else None,
        failure=recorded.failure,
        parts=recorded.parts,
    )
