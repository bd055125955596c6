"""Records what was found and done about applications' access, as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from backend import deciders
from backend.dispatch import Directed
from backend.domain.access.access_steps import (
    Record,
    RecordApplied,
    RecordDrift,
    RecordFailed,
    RemovePrincipal,
    Step,
    after_failure,
    is_record,
)
from backend.domain.tenants.application_records import (
    ApplicationRecord,
    RecordAccessApplied,
    RecordAccessDrifted,
    RecordAccessFailed,
    RecordAccessRemoved,
)
from backend.eventlog.recorded import Metadata
from workers.topics import recording

log = structlog.get_logger("access")


def record(steps: Sequence[Step], undone: Mapping[str, str | None], request_id: str) -> None:
    """Record the results of one cluster's steps.

    `undone`: principals that are not as they should be, with the reason; without a reason, nothing is recorded of
    them.
    """
    by_principal: dict[str, list[Step]] = {}
    for step in steps:
        by_principal.setdefault(step.wanted.principal, []).append(step)
    commands: list[Directed] = []
    for principal, its in by_principal.items():
        records = [step for step in its if is_record(step)]
        reason = undone.get(principal, "")
        if reason is None:
            continue
        if reason:
            log.warning("access failed", cluster=its[0].wanted.cluster, principal=principal, reason=reason)
            records = after_failure(its[0].wanted, records, reason)
        for each in records:
            if isinstance(each, RecordDrift):
                log.warning("access set back", cluster=each.wanted.cluster, principal=principal, found=each.found)
            metadata = Metadata(actor=recording.ACTOR, request_id=request_id)
            stream = f"application-{principal}"
            commands.append(Directed(deciders.APPLICATION, stream, _command(each), metadata))
    recording.record_all(commands)


def _command(step: Record) -> ApplicationRecord:
    wanted = step.wanted
    revision = None if wanted.gone else wanted.revision
    match step:
        case RecordApplied(parts=parts):
            # A cluster that was removed and added again has no row; the application's events do not say so.
            anew = wanted.applied is None and not wanted.parts
            return RecordAccessApplied(cluster=wanted.cluster, revision=wanted.revision, parts=parts, anew=anew)
        case RecordFailed(reason=reason):
            return RecordAccessFailed(cluster=wanted.cluster, reason=reason, revision=revision)
        case RecordDrift(found=found, reason=why):
            return RecordAccessDrifted(cluster=wanted.cluster, found=found, reason=why, revision=revision)
        case RemovePrincipal():
            return RecordAccessRemoved(cluster=wanted.cluster, left=wanted.left)
