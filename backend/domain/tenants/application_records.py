"""Event stream `application-<name>`: the records of workers about an application's access, and their decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from backend.domain.tenants.application import (
    Application,
    ApplicationApplied,
    ApplicationApplyFailed,
    ApplicationDrifted,
    ApplicationRemoved,
    ClusterEvent,
    OnCluster,
)

LONGEST_REASON = 1000
MOST_FOUND = 100

# --- commands


@dataclass(frozen=True, kw_only=True)
class RecordAccessApplied:
    """Record that a worker found or applied a revision on a cluster, as far as the cluster supports it."""

    cluster: str
    revision: int
    parts: Mapping[str, str]
    anew: bool = False
    """True if the projection has nothing about the cluster: it was removed and added again, which this stream does
    not show."""


@dataclass(frozen=True, kw_only=True)
class RecordAccessFailed:
    """Record that a worker could not apply the access, or could not remove it where nothing is due."""

    cluster: str
    reason: str
    revision: int | None = None
    """Revision that was tried, None for a removal; nothing is recorded if it is no longer the present one."""


@dataclass(frozen=True, kw_only=True)
class RecordAccessDrifted:
    """Record that a worker found drift. `reason`: why it could not be set back."""

    cluster: str
    found: Sequence[str]
    reason: str | None
    revision: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordAccessRemoved:
    """Record that a worker removed everything of a deleted application from a cluster, or found nothing there."""

    cluster: str
    left: bool = False
    """True if the application still exists and the cluster is no longer in its tree, which this stream does not
    show. If the cluster is back in the tree meanwhile, all is due there again."""


ApplicationRecord = RecordAccessApplied | RecordAccessFailed | RecordAccessDrifted | RecordAccessRemoved

# --- decide


def decide_record(state: Application, command: ApplicationRecord) -> list[ClusterEvent]:
    """Return the events that record it; none for what is known already, or was overtaken."""
    present = state.clusters.get(command.cluster, OnCluster())
    name = {**asdict(state.name), "cluster": command.cluster}
    if isinstance(command, RecordAccessRemoved):
        due = present.removing or (command.left and command.cluster in state.clusters)
        return [ApplicationRemoved(**name)] if due else []
    if command.revision is not None and command.revision != state.revision:
        return []
    if state.settings is None and not present.removing:
        return []
    match command:
        case RecordAccessApplied():
            parts = {part: how[:LONGEST_REASON] for part, how in command.parts.items()}
            same = present.applied and present.failure is None and present.parts == parts
            if (same and not command.anew) or state.settings is None:
                return []
            return [ApplicationApplied(**name, revision=command.revision, parts=parts)]
        case RecordAccessFailed():
            reason = command.reason[:LONGEST_REASON]
            same = not present.applied and present.failure == reason
            return [] if same else [ApplicationApplyFailed(**name, reason=reason)]
        case RecordAccessDrifted():
            why = command.reason and command.reason[:LONGEST_REASON]
            if not present.applied or (why and present.failure == why):
                return []
            found = tuple(each[:LONGEST_REASON] for each in command.found[:MOST_FOUND])
            return [ApplicationDrifted(**name, found=found, reason=why)]
