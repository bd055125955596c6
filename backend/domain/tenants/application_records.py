"""Event stream `application-<name>`: what workers record of an application's access, and what is decided of it."""

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
    """A worker found or made what a revision of the application needs on a cluster, as far as the cluster can."""

    cluster: str
    revision: int
    parts: Mapping[str, str]
    anew: bool = False
    """The read model has nothing of it there: the cluster was removed and added again, which this stream does not
    tell."""


@dataclass(frozen=True, kw_only=True)
class RecordAccessFailed:
    """A worker could not make it, or could not remove what the application had where it is to have nothing."""

    cluster: str
    reason: str
    revision: int | None = None
    """What it tried to apply, None if to remove; if that is not the present one, nothing is recorded."""


@dataclass(frozen=True, kw_only=True)
class RecordAccessDrifted:
    """A worker found something else than what it had applied; `reason` is why it could not set it back."""

    cluster: str
    found: Sequence[str]
    reason: str | None
    revision: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordAccessRemoved:
    """A worker removed everything of a deleted application from a cluster, or found nothing."""

    cluster: str
    left: bool = False
    """The application is there, the cluster is no longer in its tree, which this stream does not tell. If it is in
    it again meanwhile, all is due there anew."""


ApplicationRecord = RecordAccessApplied | RecordAccessFailed | RecordAccessDrifted | RecordAccessRemoved

# --- decide


def decide_record(state: Application, command: ApplicationRecord) -> list[ClusterEvent]:
    """Events that record it; none for what is known already, or was overtaken."""
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
