"""Compare the access an application should have on a cluster with what was observed; return the steps to take.

The comparison is pure. A principal has three parts on a cluster: ACLs, credentials, quotas. A cluster that does
not support a part gives a reason; that is no failure, the reason is recorded with what was applied. Everything
that a principal of ours has there counts as ours: what is in excess is removed. What is missing or in excess
although the log says that all is applied is drift: it is set back, and recorded with what was found (as
`RestoreTopic` of `steps`).

Order of a principal's steps: remove credentials, add ACLs, remove ACLs (in this order, so that nothing that stays
allowed is refused in between), set quotas, set credentials, and last record the result. (Style, "Reconcile in four
parts".)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from backend.domain.access.acls import Acl, text

ACLS = "acls"
CREDENTIALS = "credentials"
QUOTAS = "quotas"
PARTS = (ACLS, CREDENTIALS, QUOTAS)
APPLIED = "applied"
"""Status of a part that is applied; any other text is the reason why the cluster does not support the part."""
MOST_FOUND = 20
"""Most findings that are listed for one drift; the rest is counted."""
LEAST_ITERATIONS = 8192
DISTINCT_NUMBERS = 4096


@dataclass(frozen=True, kw_only=True)
class WantedAccess:
    """Access that one application should have on one cluster, and what the log says about it."""

    principal: str
    """Name of the principal, without `User:`."""
    cluster: str
    revision: int
    """The revision; 0 for an application that was deleted."""
    acls: frozenset[Acl] = frozenset()
    credentials: int | None = None
    """Number of the password; None if it has none."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Quotas by Kafka's names; units are Kafka's, bytes per second and percent."""
    gone: bool = False
    """True if it was deleted, or if this cluster has left its tree: nothing may be left there."""
    left: bool = False
    """True if it is gone for the second reason: the application itself still exists."""
    applied: int | None = None
    """Revision that is recorded as applied."""
    failure: str | None = None
    """Recorded reason why it is not applied, or why its drift was not set back."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Recorded status of each part."""
    settled: frozenset[Acl] | None = None
    """ACLs that were there at the last observation; None if unknown. The ACLs that are due change without a new
    revision as streams are declared and deleted, which is no drift."""


@dataclass(frozen=True, kw_only=True)
class ObservedAccess:
    """Observed access on one cluster, by principal; principals that have nothing are absent."""

    acls: Mapping[str, frozenset[Acl]] = field(default_factory=dict)
    credentials: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Principal -> mechanism -> iterations."""
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    mechanism: str | None = None
    """SCRAM mechanism that clients log in with."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Parts that this cluster does not support, with the reason."""


@dataclass(frozen=True, kw_only=True)
class RemoveCredentials:
    """Remove credentials that the principal should not have.

    `before`: mechanism -> iterations of those to remove.
    """

    wanted: WantedAccess
    before: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class AddAcls:
    """Add ACLs that the principal lacks."""

    wanted: WantedAccess
    acls: frozenset[Acl]


@dataclass(frozen=True, kw_only=True)
class RemoveAcls:
    """Remove ACLs that the principal should not have."""

    wanted: WantedAccess
    acls: frozenset[Acl]


@dataclass(frozen=True, kw_only=True)
class SetQuotas:
    """Set quotas that differ. A quota to remove is None in `after`, one that is missing is None in `before`."""

    wanted: WantedAccess
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class SetCredentials:
    """Replace the principal's password. `before`: iterations of the present one, None if it has none."""

    wanted: WantedAccess
    mechanism: str
    before: int | None
    after: int


@dataclass(frozen=True, kw_only=True)
class RecordApplied:
    """Record that everything that the cluster supports is applied; the log does not say so yet."""

    wanted: WantedAccess
    parts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RecordFailed:
    """Record the reason why the access cannot be applied."""

    wanted: WantedAccess
    reason: str


@dataclass(frozen=True, kw_only=True)
class RecordDrift:
    """Record that somebody changed what had been applied. `reason`: why it could not be set back."""

    wanted: WantedAccess
    found: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RemovePrincipal:
    """Record that nothing of the principal is left on the cluster."""

    wanted: WantedAccess


Change = RemoveCredentials | AddAcls | RemoveAcls | SetQuotas | SetCredentials
Record = RecordApplied | RecordFailed | RecordDrift | RemovePrincipal
Step = Change | Record


def iterations_of(number: int) -> int:
    """Return the iterations of the SCRAM credentials that are made from a password, by the password's number.

    A password cannot be read back, its iterations can: so a cluster shows which password it has, and a password
    that somebody else set shows as a different one. Kafka accepts 4,096 to 16,384.
    """
    return LEAST_ITERATIONS + number % DISTINCT_NUMBERS


def access_steps(wanted: Iterable[WantedAccess], seen: ObservedAccess) -> list[Step]:
    """Return the steps that bring the principals of one cluster to what they should have.

    The cluster has answered.
    """
    return [step for each in wanted for step in _steps_of_principal(each, seen)]


def _steps_of_principal(wanted: WantedAccess, seen: ObservedAccess) -> list[Step]:
    changes = [change for change in _changes(wanted, seen) if part_of(change) not in seen.cannot]
    if wanted.gone:
        left = sorted(part for part in PARTS if part in seen.cannot and wanted.parts.get(part) == APPLIED)
        if not left:
            return [*changes, RemovePrincipal(wanted=wanted)]
        reason = f"{left[0]} may be left on it: {seen.cannot[left[0]]}"
        return [*changes, *_failed(wanted, reason)]
    parts = {part: seen.cannot.get(part, APPLIED) for part in PARTS}
    # A part that the cluster did not support when the rest was applied is missing for a good reason: no drift.
    known = [part for part in PARTS if wanted.parts.get(part) == APPLIED and wanted.applied == wanted.revision]
    found = [line for change in changes if part_of(change) in known for line in _found(change)]
    records: list[Step] = []
    if found:
        records.append(RecordDrift(wanted=wanted, found=_few(sorted(found))))
    if (wanted.applied, dict(wanted.parts)) != (wanted.revision, parts) or (wanted.failure and not found):
        records.append(RecordApplied(wanted=wanted, parts=parts))
    return [*changes, *records]


def _changes(wanted: WantedAccess, seen: ObservedAccess) -> list[Change]:
    changes: list[Change] = []
    there = seen.credentials.get(wanted.principal, {})
    after = {seen.mechanism: iterations_of(wanted.credentials)} if wanted.credentials and seen.mechanism else {}
    if excess := {mechanism: there[mechanism] for mechanism in there if mechanism not in after}:
        changes.append(RemoveCredentials(wanted=wanted, before=excess))
    acls = seen.acls.get(wanted.principal, frozenset())
    if missing := wanted.acls - acls:
        changes.append(AddAcls(wanted=wanted, acls=missing))
    if unwanted := acls - wanted.acls:
        changes.append(RemoveAcls(wanted=wanted, acls=unwanted))
    quotas = seen.quotas.get(wanted.principal, {})
    if differ := sorted(key for key in {*quotas, *wanted.quotas} if quotas.get(key) != wanted.quotas.get(key)):
        before, later = ({key: each.get(key) for key in differ} for each in (quotas, wanted.quotas))
        changes.append(SetQuotas(wanted=wanted, before=before, after=later))
    for mechanism, iterations in after.items():
        if (old := there.get(mechanism)) != iterations:
            step = SetCredentials(wanted=wanted, mechanism=mechanism, before=old, after=iterations)
            changes.append(step)
    return changes


def part_of(change: Change) -> str:
    """Return the part that a change is about."""
    match change:
        case AddAcls() | RemoveAcls():
            return ACLS
        case SetQuotas():
            return QUOTAS
        case _:
            return CREDENTIALS


def _found(change: Change) -> list[str]:
    """Describe what somebody else must have changed."""
    match change:
        case AddAcls(acls=acls):
            known = acls if change.wanted.settled is None else change.wanted.settled
            return [f"missing: {text(acl)}" for acl in acls & known]
        case RemoveAcls(acls=acls):
            known = change.wanted.settled or frozenset()
            return [f"in excess: {text(acl)}" for acl in acls - known]
        case RemoveCredentials(before=before):
            return [f"in excess: {mechanism} credentials" for mechanism in before]
        case SetCredentials(mechanism=mechanism, before=None):
            return [f"missing: {mechanism} credentials"]
        case SetCredentials(mechanism=mechanism):
            return [f"changed: {mechanism} credentials"]
        case SetQuotas(before=before):
            return [f"{key}: {'none' if value is None else f'{value:g}'}" for key, value in before.items()]


def _few(found: list[str]) -> tuple[str, ...]:
    rest = len(found) - MOST_FOUND
    return tuple(found) if rest <= 0 else (*found[:MOST_FOUND], f"and {rest} more")


def _failed(wanted: WantedAccess, reason: str) -> list[Step]:
    return [] if wanted.failure == reason else [RecordFailed(wanted=wanted, reason=reason)]


def is_record(step: Step) -> TypeGuard[Record]:
    """Tell whether a step only records."""
    return isinstance(step, RecordApplied | RecordFailed | RecordDrift | RemovePrincipal)


def after_failure(wanted: WantedAccess, planned: Iterable[Record], reason: str) -> list[Record]:
    """Return what to record of a principal after one of its changes failed, instead of what was planned."""
    if wanted.failure == reason:
        return []
    drifted = [step for step in planned if isinstance(step, RecordDrift)]
    if drifted:
        return [replace(drifted[0], reason=reason)]
    return [RecordFailed(wanted=wanted, reason=reason)]


def drifts(steps: Iterable[Step]) -> dict[str, tuple[str, ...]]:
    """Return what drifted, by principal."""
    return {step.wanted.principal: step.found for step in steps if isinstance(step, RecordDrift)}


def repeated_drifts(steps: list[Step], before: Mapping[str, tuple[str, ...]]) -> list[Step]:
    """Leave out the steps of principals whose drift was not the same at the poll before.

    A broker may answer before it has heard of what we ourselves set a moment ago.
    """
    unsure = {principal for principal, found in drifts(steps).items() if before.get(principal) != found}
    return [step for step in steps if step.wanted.principal not in unsure]
