"""What an application should have on a cluster against what is seen there gives the steps to take. Pure.

A principal has three parts on a cluster: ACLs, credentials, quotas. A cluster that cannot take a part says why;
that is no failure, it is recorded with what was applied. Everything that a principal of ours has there counts as
ours: what is in excess is taken away. What is missing or in excess although the log says that all is applied is
drift: set back, and recorded with what was found (as `RestoreTopic` of `steps`).

Order of a principal's steps: credentials that are to go, then ACLs (first those to add, so that nothing that stays
allowed is refused in between), quotas, new credentials, and last the record of it. (Style, "Reconcile in four
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
"""Of a part; any other word is the reason why the cluster cannot take it."""
MOST_FOUND = 20
"""Texts of one drift; the rest is counted."""
LEAST_ITERATIONS = 8192
NUMBERS_TOLD_APART = 4096


@dataclass(frozen=True, kw_only=True)
class WantedAccess:
    """What one application should have on one cluster, and what the log says of it."""

    principal: str
    """Without `User:`."""
    cluster: str
    revision: int
    """0 for one that is gone."""
    acls: frozenset[Acl] = frozenset()
    credentials: int | None = None
    """Number of the password, None for none."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """By Kafka's names; units are Kafka's, bytes a second and percent."""
    gone: bool = False
    """Deleted, or this cluster has left its tree: nothing may be left."""
    left: bool = False
    """Gone for the second reason: the application itself is still there."""
    applied: int | None = None
    """The revision that is recorded as applied."""
    failure: str | None = None
    """The reason that is recorded for its not being applied, or not being set back."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """What is recorded of each part."""
    settled: frozenset[Acl] | None = None
    """Entries that were there after the last look, None if that is not known: what is due changes without a new
    revision as streams are declared and deleted, which is no drift."""


@dataclass(frozen=True, kw_only=True)
class SeenAccess:
    """One look at one cluster, by principal; principals that have nothing are absent."""

    acls: Mapping[str, frozenset[Acl]] = field(default_factory=dict)
    credentials: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Mechanism -> iterations."""
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    mechanism: str | None = None
    """The SCRAM mechanism that clients log in by."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Parts that this cluster does not take, with the reason."""


@dataclass(frozen=True, kw_only=True)
class RemoveCredentials:
    """It has credentials that it should not have; `before`: mechanism -> iterations of those to go."""

    wanted: WantedAccess
    before: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class AddAcls:
    """It lacks entries."""

    wanted: WantedAccess
    acls: frozenset[Acl]


@dataclass(frozen=True, kw_only=True)
class RemoveAcls:
    """It has entries that it should not have."""

    wanted: WantedAccess
    acls: frozenset[Acl]


@dataclass(frozen=True, kw_only=True)
class SetQuotas:
    """Its quotas differ; those to take away are None in `after`, those that are not there in `before`."""

    wanted: WantedAccess
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class SetCredentials:
    """The password that it should log in by is not the one there; `before`: iterations, None if it has none."""

    wanted: WantedAccess
    mechanism: str
    before: int | None
    after: int


@dataclass(frozen=True, kw_only=True)
class RecordApplied:
    """All is there that the cluster can take, and the log does not say so yet."""

    wanted: WantedAccess
    parts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RecordFailed:
    """It cannot be as it should; the reason is recorded."""

    wanted: WantedAccess
    reason: str


@dataclass(frozen=True, kw_only=True)
class RecordDrift:
    """Somebody changed what was as it should; `reason`: why it could not be set back."""

    wanted: WantedAccess
    found: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RemovePrincipal:
    """Nothing of it is left on the cluster."""

    wanted: WantedAccess


Change = RemoveCredentials | AddAcls | RemoveAcls | SetQuotas | SetCredentials
Record = RecordApplied | RecordFailed | RecordDrift | RemovePrincipal
Step = Change | Record


def iterations_of(number: int) -> int:
    """Iterations of the SCRAM credentials that are made of a password, by its number.

    A password cannot be read back, its iterations can: so a cluster shows which password it has, and one that
    somebody else set shows as another. Kafka takes 4,096 to 16,384.
    """
    return LEAST_ITERATIONS + number % NUMBERS_TOLD_APART


def access_steps(wanted: Iterable[WantedAccess], seen: SeenAccess) -> list[Step]:
    """Bring the principals of one cluster to what they should have. The cluster has answered."""
    return [step for each in wanted for step in _of_principal(each, seen)]


def _of_principal(wanted: WantedAccess, seen: SeenAccess) -> list[Step]:
    changes = [change for change in _changes(wanted, seen) if part_of(change) not in seen.cannot]
    if wanted.gone:
        left = sorted(part for part in PARTS if part in seen.cannot and wanted.parts.get(part) == APPLIED)
        if not left:
            return [*changes, RemovePrincipal(wanted=wanted)]
        reason = f"{left[0]} may be left on it: {seen.cannot[left[0]]}"
        return [*changes, *_failed(wanted, reason)]
    parts = {part: seen.cannot.get(part, APPLIED) for part in PARTS}
    # A part that the cluster could not take when the rest was applied is not there for a good reason.
    known = [part for part in PARTS if wanted.parts.get(part) == APPLIED and wanted.applied == wanted.revision]
    found = [line for change in changes if part_of(change) in known for line in _found(change)]
    records: list[Step] = []
    if found:
        records.append(RecordDrift(wanted=wanted, found=_few(sorted(found))))
    if (wanted.applied, dict(wanted.parts)) != (wanted.revision, parts) or (wanted.failure and not found):
        records.append(RecordApplied(wanted=wanted, parts=parts))
    return [*changes, *records]


def _changes(wanted: WantedAccess, seen: SeenAccess) -> list[Change]:
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
    """The part that a change is about."""
    match change:
        case AddAcls() | RemoveAcls():
            return ACLS
        case SetQuotas():
            return QUOTAS
        case _:
            return CREDENTIALS


def _found(change: Change) -> list[str]:
    """What somebody else must have changed, for people."""
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
    """Whether a step only records."""
    return isinstance(step, RecordApplied | RecordFailed | RecordDrift | RemovePrincipal)


def after_failure(wanted: WantedAccess, planned: Iterable[Record], reason: str) -> list[Record]:
    """What is to be recorded of a principal, one of whose changes failed, instead of what was planned."""
    if wanted.failure == reason:
        return []
    drifted = [step for step in planned if isinstance(step, RecordDrift)]
    if drifted:
        return [replace(drifted[0], reason=reason)]
    return [RecordFailed(wanted=wanted, reason=reason)]


def drifts(steps: Iterable[Step]) -> dict[str, tuple[str, ...]]:
    """Principal -> what was found on it."""
    return {step.wanted.principal: step.found for step in steps if isinstance(step, RecordDrift)}


def twice_seen(steps: list[Step], before: Mapping[str, tuple[str, ...]]) -> list[Step]:
    """Without the steps of principals that did not drift in the same way at the look before.

    A broker may answer before it has heard of what we ourselves set a moment ago.
    """
    unsure = {principal for principal, found in drifts(steps).items() if before.get(principal) != found}
    return [step for step in steps if step.wanted.principal not in unsure]
