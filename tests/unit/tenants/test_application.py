"""Event stream `application-<name>`: given events, when a command, then events or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    NameInvalid,
    NotFound,
    StateConflict,
    TechnicalNameTaken,
    ValueInvalid,
)
from backend.domain.base.event import Event
from backend.domain.names.names import ApplicationName
from backend.domain.offsets.application_groups import ClusterGroups
from backend.domain.tenants import application, application_commands
from backend.domain.tenants.application import (
    AccessGranted,
    AccessRefused,
    AccessRequested,
    AccessWithdrawn,
    ApplicationApplied,
    ApplicationApplyFailed,
    ApplicationChanged,
    ApplicationDeclared,
    ApplicationDeleted,
    ApplicationDrifted,
    ApplicationRemoved,
    CredentialsIssued,
    CredentialsRevoked,
)
from backend.domain.tenants.application_commands import (
    MOST_APPLICATIONS,
    MOST_GROUPS,
    MOST_STREAMS,
    ApplicationCommand,
    ChangeApplication,
    DecideAccess,
    DeclareApplication,
    DeleteApplication,
    Facts,
    IssueCredentials,
    RevokeCredentials,
)
from backend.domain.tenants.application_records import (
    RecordAccessApplied,
    RecordAccessDrifted,
    RecordAccessFailed,
    RecordAccessRemoved,
)

BILLING = ApplicationName("acme", "retail", "prod", "billing")
AUDIT = ApplicationName("acme", "retail", "prod", "audit")
THEIRS = ApplicationName("globex", "shop", "prod", "billing")
NAME: dict[str, Any] = {"tenant": "acme", "instance": "retail", "environment": "prod", "application": "billing"}
ORDERS, ITEMS = "acme/retail/prod/orders", "globex/shop/prod/items"
NO_QUOTAS = {"producer_bytes_per_second": None, "consumer_bytes_per_second": None, "request_percentage": None}
HALF = {**NO_QUOTAS, "request_percentage": 50}
DECLARED = ApplicationDeclared(**NAME, revision=1, groups=("billing",), **NO_QUOTAS)
MINE: dict[str, Any] = {**NAME, "stream": ORDERS, "operation": "produce"}
OTHERS: dict[str, Any] = {**NAME, "stream": ITEMS, "operation": "consume"}
ASKED, ASKED_OTHERS = AccessRequested(**MINE), AccessRequested(**OTHERS)
GRANTED = AccessGranted(**MINE, revision=2)
REFUSED = AccessRefused(**MINE, reason="no")
TAKEN_BACK = AccessWithdrawn(**MINE, revision=3, by="application", reason=None)
WITHDRAWN = AccessWithdrawn(**MINE, revision=3, by="owner", reason="audit")
ISSUED = CredentialsIssued(**NAME, number=1, revision=2)
REVOKED = CredentialsRevoked(**NAME, revision=3)
DELETED = ApplicationDeleted(**NAME, revision=2, clusters=("c1",))
APPLIED = ApplicationApplied(**NAME, cluster="c1", revision=1, parts={"acls": "applied"})
FAILED = ApplicationApplyFailed(**NAME, cluster="c1", reason="silent")
REMOVED = ApplicationRemoved(**NAME, cluster="c1")
LEFT = RecordAccessRemoved(cluster="c1", left=True)
CLUSTERS = ("c1", "c2")
NOBODY, OWNER, ALL = Facts(), Facts(may_decide=frozenset({"acme"})), Facts(may_decide=None)
GROUPS = Facts(clusters=(ClusterGroups("c1", "{tenant}-{group}"), ClusterGroups("c2", "{group}")))
DECIDE = DecideAccess(application=BILLING, stream=ORDERS, operation="produce", decision="grant")
REFUSE, WITHDRAW = replace(DECIDE, decision="refuse", reason="no"), replace(DECIDE, decision="withdraw")


def declare(**changes: Any) -> DeclareApplication:
    return DeclareApplication(**{"name": BILLING, "facts": NOBODY, **changes})


def change(**changes: Any) -> ChangeApplication:
    return ChangeApplication(**{"facts": NOBODY, **changes})


def applied(revision: int = 1, **parts: str) -> RecordAccessApplied:
    return RecordAccessApplied(cluster="c1", revision=revision, parts=parts or {"acls": "applied"})


def when(given: Sequence[Event], command: ApplicationCommand) -> list[Any]:
    return list(application_commands.decide(reduce(application.evolve, given, application.INITIAL), command))


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], declare(), [DECLARED]),
        ([], declare(groups=()), [replace(DECLARED, groups=())]),
        ([], declare(groups=("b", "a", "b")), [replace(DECLARED, groups=("a", "b"))]),
        (
            [],
            declare(quotas={"request_percentage": 50}),
            [replace(DECLARED, request_percentage=50)],
        ),
        # What one may decide is granted at once; what others own waits, whether there is such a stream or not.
        ([], declare(produces=("orders",)), [DECLARED, ASKED]),
        ([], declare(produces=("orders", ORDERS), facts=OWNER), [DECLARED, ASKED, GRANTED]),
        (
            [],
            declare(produces=("orders",), consumes=(ITEMS,), facts=OWNER),
            [DECLARED, ASKED, GRANTED, ASKED_OTHERS],
        ),
        (
            [],
            declare(produces=("orders",), consumes=(ITEMS,), facts=ALL),
            [DECLARED, ASKED, GRANTED, ASKED_OTHERS, AccessGranted(**OTHERS, revision=3)],
        ),
        # Declared again after it was deleted: its revisions and passwords go on.
        ([DECLARED, DELETED], declare(), [replace(DECLARED, revision=3)]),
        ([DECLARED], change(), []),
        ([DECLARED], change(groups=("billing",), produces=(), quotas={"request_percentage": None}), []),
        (
            [DECLARED],
            change(quotas={"request_percentage": 50}),
            [ApplicationChanged(**NAME, revision=2, groups=("billing",), **HALF)],
        ),
        ([DECLARED], change(produces=("orders",), facts=OWNER), [ASKED, GRANTED]),
        ([DECLARED, ASKED, GRANTED], change(produces=("orders",), facts=OWNER), []),
        ([DECLARED, ASKED, GRANTED], change(produces=()), [TAKEN_BACK]),
        ([DECLARED, ASKED, GRANTED], change(consumes=()), []),
        # What was not granted goes without anything new for the clusters.
        ([DECLARED, ASKED], change(produces=()), [replace(TAKEN_BACK, revision=1)]),
        ([DECLARED, ASKED, REFUSED], change(produces=()), [replace(TAKEN_BACK, revision=1)]),
        ([DECLARED, ASKED, REFUSED], change(produces=("orders",)), []),
        ([DECLARED, ASKED, REFUSED, replace(TAKEN_BACK, revision=1)], change(produces=("orders",)), [ASKED]),
        # A stream that was deleted since stays named.
        ([DECLARED, ASKED], change(produces=("orders",), facts=Facts(missing=frozenset({ORDERS}))), []),
        ([DECLARED, ASKED], DECIDE, [GRANTED]),
        ([DECLARED, ASKED, GRANTED], DECIDE, []),
        ([DECLARED, ASKED, REFUSED], DECIDE, [GRANTED]),
        ([DECLARED, ASKED, GRANTED, WITHDRAWN], DECIDE, [replace(GRANTED, revision=4)]),
        ([DECLARED, ASKED], REFUSE, [REFUSED]),
        ([DECLARED, ASKED, REFUSED], REFUSE, []),
        ([DECLARED, ASKED, GRANTED], replace(WITHDRAW, reason="audit"), [WITHDRAWN]),
        ([DECLARED, ASKED, GRANTED, WITHDRAWN], WITHDRAW, []),
        ([DECLARED], IssueCredentials(), [ISSUED]),
        ([DECLARED, ISSUED], IssueCredentials(), [replace(ISSUED, number=2, revision=3)]),
        ([DECLARED, ISSUED], RevokeCredentials(), [REVOKED]),
        ([DECLARED, ISSUED, REVOKED], IssueCredentials(), [replace(ISSUED, number=2, revision=4)]),
        ([DECLARED], DeleteApplication(clusters=frozenset({"c1"})), [DELETED]),
        ([DECLARED], DeleteApplication(clusters=frozenset(CLUSTERS)), [replace(DELETED, clusters=CLUSTERS)]),
        # c1 was removed and is no cluster any more: nobody could clear it.
        ([DECLARED, APPLIED], DeleteApplication(clusters=frozenset()), [replace(DELETED, clusters=())]),
    ],
)
def test_decisions(given: list[Event], command: ApplicationCommand, then: list[Event]) -> None:
    assert when(given, command) == then


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([DECLARED], applied(), [APPLIED]),
        ([DECLARED, APPLIED], applied(), []),
        ([DECLARED, APPLIED], replace(applied(), anew=True), [APPLIED]),
        ([DECLARED, APPLIED], applied(acls="no authorizer"), [replace(APPLIED, parts={"acls": "no authorizer"})]),
        ([DECLARED, ASKED, GRANTED], applied(revision=1), []),
        ([DECLARED, APPLIED, ASKED, GRANTED], applied(revision=2), [replace(APPLIED, revision=2)]),
        ([DECLARED, FAILED], applied(), [APPLIED]),
        ([DECLARED], RecordAccessFailed(cluster="c1", reason="silent"), [FAILED]),
        ([DECLARED, FAILED], RecordAccessFailed(cluster="c1", reason="silent"), []),
        ([DECLARED, FAILED, ISSUED], RecordAccessFailed(cluster="c1", reason="silent"), [FAILED]),
        ([DECLARED, ISSUED], RecordAccessFailed(cluster="c1", reason="silent", revision=1), []),
        (
            [DECLARED],
            RecordAccessFailed(cluster="c1", reason="x" * 2000),
            [ApplicationApplyFailed(**NAME, cluster="c1", reason="x" * 1000)],
        ),
        ([DECLARED], RecordAccessDrifted(cluster="c1", found=("t",), reason=None), []),
        (
            [DECLARED, APPLIED],
            RecordAccessDrifted(cluster="c1", found=["t"], reason=None),
            [ApplicationDrifted(**NAME, cluster="c1", found=("t",), reason=None)],
        ),
        (
            [DECLARED, APPLIED, ApplicationDrifted(**NAME, cluster="c1", found=("t",), reason="silent")],
            RecordAccessDrifted(cluster="c1", found=["t"], reason="silent"),
            [],
        ),
        ([DECLARED, APPLIED], RecordAccessRemoved(cluster="c1"), []),
        ([DECLARED, DELETED], RecordAccessRemoved(cluster="c1"), [REMOVED]),
        ([DECLARED, DELETED, REMOVED], RecordAccessRemoved(cluster="c1"), []),
        # The cluster has left the tree.
        ([DECLARED, APPLIED], LEFT, [REMOVED]),
        ([DECLARED, APPLIED, ISSUED], LEFT, [REMOVED]),
        ([DECLARED, FAILED], LEFT, [REMOVED]),
        ([DECLARED, APPLIED, REMOVED], LEFT, []),
        ([DECLARED], LEFT, []),
        ([DECLARED, APPLIED], RecordAccessFailed(cluster="c1", reason="silent"), [FAILED]),
        # And is in it again.
        ([DECLARED, APPLIED, REMOVED], applied(), [APPLIED]),
        ([DECLARED, DELETED], applied(revision=2), []),
        ([DECLARED, DELETED], RecordAccessFailed(cluster="c1", reason="silent"), [FAILED]),
        ([DECLARED, DELETED], RecordAccessFailed(cluster="c2", reason="silent"), []),
        # Declared anew before the clusters were cleared of it: nothing is to be removed any more.
        ([DECLARED, DELETED, replace(DECLARED, revision=3)], RecordAccessRemoved(cluster="c1"), []),
        ([], applied(), []),
    ],
)
def test_what_workers_record(given: list[Event], command: ApplicationCommand, then: list[Event]) -> None:
    assert when(given, command) == then


MANY = tuple(f"s{number}" for number in range(MOST_STREAMS + 1))
GONE = Facts(missing=frozenset({ORDERS, "acme/retail/prod/b"}))
TOO_LONG = Facts(clusters=(ClusterGroups("c1", "x" * 200 + "{tenant}-{group}"),))


@pytest.mark.parametrize(
    ("given", "command", "error", "pointer"),
    [
        ([DECLARED], declare(), AlreadyExists, "/name"),
        ([], declare(name=replace(BILLING, application="Billing")), NameInvalid, "/name"),
        ([], declare(name=replace(BILLING, application="b" * 101)), NameInvalid, "/name"),
        ([], declare(facts=Facts(applications=MOST_APPLICATIONS)), StateConflict, None),
        ([], declare(groups=("a", "b\t")), NameInvalid, "/groups/1"),
        ([], declare(groups=MANY[: MOST_GROUPS + 1]), ValueInvalid, "/groups"),
        ([], declare(produces=MANY), ValueInvalid, "/produces"),
        ([], declare(consumes=("orders", "a/b")), ValueInvalid, "/consumes/1"),
        ([], declare(consumes=("",)), ValueInvalid, "/consumes/0"),
        ([], declare(consumes=("Orders",)), ValueInvalid, "/consumes/0"),
        ([], declare(produces=("orders",), facts=Facts(missing=frozenset({ORDERS}))), ValueInvalid, "/produces/0"),
        ([], declare(quotas={"request_percentage": 0}), ValueInvalid, "/request_percentage"),
        (
            [],
            declare(quotas={"producer_bytes_per_second": 1 << 53}),
            ValueInvalid,
            "/producer_bytes_per_second",
        ),
        ([], declare(groups=("g" * 60,), facts=TOO_LONG), NameInvalid, "/groups/0"),
        (
            [],
            declare(groups=("a", "g"), facts=replace(GROUPS, taken_groups={("c2", "g"): AUDIT})),
            TechnicalNameTaken,
            "/groups/1",
        ),
        (
            [],
            declare(facts=replace(GROUPS, taken_groups={("c1", "acme-billing"): AUDIT})),
            TechnicalNameTaken,
            "/name",
        ),
        ([], change(), NotFound, None),
        ([DECLARED, DELETED], change(), NotFound, None),
        ([DECLARED, ASKED], change(produces=("orders", "b"), facts=GONE), ValueInvalid, "/produces/1"),
        ([], DECIDE, NotFound, None),
        ([DECLARED], DECIDE, NotFound, None),
        ([DECLARED, ASKED, DELETED], DECIDE, NotFound, None),
        ([DECLARED, ASKED], replace(DECIDE, operation="consume"), NotFound, None),
        ([DECLARED, ASKED], replace(DECIDE, operation="admin"), ValueInvalid, "/operation"),
        ([DECLARED, ASKED], replace(DECIDE, decision="perhaps"), ValueInvalid, "/decision"),
        ([DECLARED, ASKED], WITHDRAW, StateConflict, None),
        ([DECLARED, ASKED, GRANTED], REFUSE, StateConflict, None),
        ([DECLARED, ASKED, GRANTED, WITHDRAWN], REFUSE, StateConflict, None),
        ([], IssueCredentials(), NotFound, None),
        ([DECLARED], RevokeCredentials(), NotFound, None),
        ([DECLARED, ISSUED, DELETED], RevokeCredentials(), NotFound, None),
        ([], DeleteApplication(clusters=frozenset()), NotFound, None),
        ([DECLARED, DELETED], DeleteApplication(clusters=frozenset()), NotFound, None),
    ],
)
def test_refusals(
    given: list[Event], command: ApplicationCommand, error: type[DomainError], pointer: str | None
) -> None:
    with pytest.raises(error) as refused:
        when(given, command)
    assert [each.pointer for each in refused.value.errors] == ([] if pointer is None else [pointer])


def test_a_group_that_is_taken_tells_only_ones_own_tenant_by_whom() -> None:
    for other, told in ((AUDIT, True), (THEIRS, False)):
        with pytest.raises(TechnicalNameTaken) as refused:
            when([], declare(groups=("g",), facts=replace(GROUPS, taken_groups={("c2", "g"): other})))
        assert (str(other) in refused.value.detail) is told
        assert other.tenant == "acme" or other.tenant not in refused.value.detail


def test_what_nobody_asked_for_is_answered_as_if_there_were_no_such_application() -> None:
    answers = set()
    for given in ([], [DECLARED], [DECLARED, DELETED]):
        with pytest.raises(NotFound) as refused:
            when(given, DECIDE)
        answers.add(refused.value.detail)
    assert len(answers) == 1
