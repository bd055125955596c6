"""Desired access of applications on a cluster compared with the observed state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.access import access_steps as steps
from backend.domain.access.access_steps import (
    AddAcls,
    ObservedAccess,
    RecordApplied,
    RecordDrift,
    RecordFailed,
    RemoveAcls,
    RemoveCredentials,
    RemovePrincipal,
    SetCredentials,
    SetQuotas,
    WantedAccess,
    access_steps,
    iterations_of,
    repeated_drifts,
)
from backend.domain.access.acls import Acl, acls_of

P = "acme/retail/prod/billing"
SCRAM = "SCRAM-SHA-512"
NEEDED = acls_of(["out"], ["in"], ["g"], f"{P}/")
ALL = dict.fromkeys(steps.PARTS, "applied")
WANTED = WantedAccess(
    principal=P, cluster="c", revision=3, acls=NEEDED, credentials=2, quotas={"producer_byte_rate": 1000.0}
)
RECORDED = replace(WANTED, applied=3, parts=ALL)
GONE = WantedAccess(principal=P, cluster="c", revision=0, gone=True, applied=3, parts=ALL)
NOTHING = ObservedAccess(mechanism=SCRAM)
FULL = ObservedAccess(
    mechanism=SCRAM,
    acls={P: NEEDED},
    credentials={P: {SCRAM: iterations_of(2)}},
    quotas={P: {"producer_byte_rate": 1000.0}},
)
STRAY = Acl("topic", "other", "literal", "read")


def kinds(planned: list[steps.Step]) -> list[type]:
    return [type(step) for step in planned]


def test_a_new_application_gets_all_and_is_recorded_last() -> None:
    planned = access_steps([WANTED], NOTHING)
    assert planned == [
        AddAcls(wanted=WANTED, acls=NEEDED),
        SetQuotas(wanted=WANTED, before={"producer_byte_rate": None}, after={"producer_byte_rate": 1000.0}),
        SetCredentials(wanted=WANTED, mechanism=SCRAM, before=None, after=iterations_of(2)),
        RecordApplied(wanted=WANTED, parts=ALL),
    ]


def test_what_is_there_and_recorded_needs_nothing() -> None:
    assert access_steps([RECORDED], FULL) == []


def test_what_is_there_and_not_recorded_is_recorded() -> None:
    assert access_steps([WANTED], FULL) == [RecordApplied(wanted=WANTED, parts=ALL)]


def test_a_new_revision_changes_only_what_differs_and_is_no_drift() -> None:
    wanted = replace(RECORDED, revision=4, acls=acls_of(["out"], [], [], f"{P}/"), credentials=3)
    planned = access_steps([wanted], FULL)
    assert planned == [
        RemoveAcls(wanted=wanted, acls=acls_of([], ["in"], ["g"], None)),
        SetCredentials(wanted=wanted, mechanism=SCRAM, before=iterations_of(2), after=iterations_of(3)),
        RecordApplied(wanted=wanted, parts=ALL),
    ]


def test_revoked_credentials_go_before_anything_else() -> None:
    wanted = replace(RECORDED, revision=4, credentials=None, acls=frozenset())
    assert kinds(access_steps([wanted], FULL)) == [RemoveCredentials, RemoveAcls, RecordApplied]


def test_a_deleted_application_loses_its_credentials_first_and_leaves_nothing() -> None:
    planned = access_steps([GONE], FULL)
    assert kinds(planned) == [RemoveCredentials, RemoveAcls, SetQuotas, RemovePrincipal]
    assert access_steps([GONE], NOTHING) == [RemovePrincipal(wanted=GONE)]


def test_a_deleted_one_is_not_called_gone_where_something_can_no_longer_be_removed() -> None:
    blind = ObservedAccess(cannot={"credentials": "not allowed"})
    (step,) = access_steps([GONE], blind)
    assert step == RecordFailed(wanted=GONE, reason="credentials may be left on it: not allowed")
    assert access_steps([replace(GONE, failure=step.reason)], blind) == []
    never = replace(GONE, parts={**ALL, "credentials": "not allowed"})
    assert access_steps([never], blind) == [RemovePrincipal(wanted=never)]


@pytest.mark.parametrize(
    ("seen", "fixed", "found"),
    [
        (
            replace(FULL, acls={P: NEEDED - {Acl("topic", "in", "literal", "read")}}),
            [AddAcls],
            ("missing: topic in: read",),
        ),
        (replace(FULL, acls={P: NEEDED | {STRAY}}), [RemoveAcls], ("in excess: topic other: read",)),
        (replace(FULL, credentials={}), [SetCredentials], (f"missing: {SCRAM} credentials",)),
        (
            replace(FULL, credentials={P: {SCRAM: 4096}}),
            [SetCredentials],
            (f"changed: {SCRAM} credentials",),
        ),
        (
            replace(FULL, credentials={P: {SCRAM: iterations_of(2), "SCRAM-SHA-256": 4096}}),
            [RemoveCredentials],
            ("in excess: SCRAM-SHA-256 credentials",),
        ),
        (
            replace(FULL, quotas={P: {"producer_byte_rate": 5.0, "request_percentage": 1.0}}),
            [SetQuotas],
            ("producer_byte_rate: 5", "request_percentage: 1"),
        ),
        (replace(FULL, quotas={}), [SetQuotas], ("producer_byte_rate: none",)),
    ],
)
def test_what_somebody_changed_is_set_back_and_told(seen: ObservedAccess, fixed: list[type], found: tuple) -> None:
    planned = access_steps([RECORDED], seen)
    assert kinds(planned) == [*fixed, RecordDrift]
    assert planned[-1] == RecordDrift(wanted=RECORDED, found=found)


def test_a_drift_is_acted_on_when_it_is_seen_twice() -> None:
    planned = access_steps([RECORDED], replace(FULL, quotas={}))
    assert repeated_drifts(planned, {}) == []
    assert repeated_drifts(planned, {P: ("something else",)}) == []
    assert repeated_drifts(planned, steps.drifts(planned)) == planned
    other = RecordApplied(wanted=replace(WANTED, principal="another"), parts=ALL)
    assert repeated_drifts([*planned, other], {}) == [other]


def test_many_differences_are_counted() -> None:
    (*_, drift) = access_steps(
        [RECORDED], replace(FULL, acls={P: NEEDED | {Acl("topic", f"t{n}", "literal", "read") for n in range(30)}})
    )
    assert isinstance(drift, RecordDrift)
    assert (len(drift.found), drift.found[-1]) == (steps.MOST_FOUND + 1, "and 10 more")


def test_a_part_that_a_cluster_cannot_take_is_recorded_with_the_reason_and_is_no_failure() -> None:
    open_cluster = ObservedAccess(cannot={"acls": "it has no authorizer", "credentials": "nobody logs in"})
    parts = {"acls": "it has no authorizer", "credentials": "nobody logs in", "quotas": "applied"}
    planned = access_steps([WANTED], open_cluster)
    assert kinds(planned) == [SetQuotas, RecordApplied]
    assert planned[-1] == RecordApplied(wanted=WANTED, parts=parts)
    recorded = replace(WANTED, applied=3, parts=parts)
    assert access_steps([recorded], replace(open_cluster, quotas=FULL.quotas)) == []


def test_a_cluster_that_learns_to_take_a_part_gets_it_without_a_word_of_drift() -> None:
    recorded = replace(RECORDED, parts={**ALL, "acls": "it has no authorizer"})
    assert kinds(access_steps([recorded], replace(FULL, acls={}))) == [AddAcls, RecordApplied]


def test_what_is_due_for_streams_that_come_and_go_is_no_drift() -> None:
    gone, new = Acl("topic", "in", "literal", "read"), Acl("topic", "new", "literal", "read")
    wanted = replace(RECORDED, acls=NEEDED - {gone} | {new}, settled=NEEDED)
    planned = access_steps([wanted], FULL)
    assert planned == [
        AddAcls(wanted=wanted, acls=frozenset({new})),
        RemoveAcls(wanted=wanted, acls=frozenset({gone})),
    ]
    deleted = Acl("topic", "out", "literal", "write")
    (*_, drift) = access_steps([wanted], replace(FULL, acls={P: NEEDED - {deleted} | {STRAY}}))
    assert drift == RecordDrift(wanted=wanted, found=("in excess: topic other: read", "missing: topic out: write"))


def test_a_cluster_that_was_set_up_anew_gets_everything() -> None:
    planned = access_steps([RECORDED], NOTHING)
    assert kinds(planned) == [AddAcls, SetQuotas, SetCredentials, RecordDrift]


def test_a_failure_is_recorded_once_and_is_over_when_all_is_there() -> None:
    (*_, record) = access_steps([WANTED], NOTHING)
    assert steps.after_failure(WANTED, [record], "refused") == [RecordFailed(wanted=WANTED, reason="refused")]
    failed = replace(WANTED, failure="refused")
    assert steps.after_failure(failed, [RecordApplied(wanted=failed, parts=ALL)], "refused") == []
    recovered = replace(RECORDED, failure="refused")
    assert access_steps([recovered], FULL) == [RecordApplied(wanted=recovered, parts=ALL)]


def test_a_drift_that_cannot_be_set_back_says_why() -> None:
    (*_, record) = access_steps([RECORDED], replace(FULL, quotas={}))
    (told,) = steps.after_failure(RECORDED, [record], "refused")
    assert told == RecordDrift(wanted=RECORDED, found=("producer_byte_rate: none",), reason="refused")


def test_numbers_are_told_apart_within_what_kafka_takes() -> None:
    iterations = [iterations_of(number) for number in range(1, 4097)]
    assert len(set(iterations)) == 4096
    assert min(iterations) >= 4096
    assert max(iterations) <= 16384


def after(planned: list[steps.Step], seen: ObservedAccess) -> ObservedAccess:
    """The cluster when the steps were taken."""
    acls, quotas = dict(seen.acls), {who: dict(each) for who, each in seen.quotas.items()}
    credentials = {who: dict(each) for who, each in seen.credentials.items()}
    for step in planned:
        who = step.wanted.principal
        match step:
            case AddAcls():
                acls[who] = acls.get(who, frozenset()) | step.acls
            case RemoveAcls():
                acls[who] = acls[who] - step.acls
            case SetQuotas():
                merged = {**quotas.get(who, {}), **step.after}
                quotas[who] = {key: value for key, value in merged.items() if value is not None}
            case SetCredentials():
                credentials.setdefault(who, {})[step.mechanism] = step.after
            case RemoveCredentials():
                credentials[who] = {m: i for m, i in credentials[who].items() if m not in step.before}
    return replace(seen, acls=acls, quotas=quotas, credentials=credentials)


def recorded(planned: list[steps.Step], wanted: WantedAccess) -> WantedAccess | None:
    """Return the log's state of an application after its steps were recorded; None if it is gone."""
    for step in planned:
        if step.wanted.principal != wanted.principal:
            continue
        match step:
            case RemovePrincipal():
                return None
            case RecordApplied():
                wanted = replace(wanted, applied=wanted.revision, parts=step.parts, failure=None)
            case RecordDrift():
                wanted = replace(wanted, failure=step.reason)
            case RecordFailed():
                wanted = replace(wanted, failure=step.reason)
    return wanted


names = st.sampled_from(["a", "b", "c"])
entries = st.frozensets(
    st.builds(
        Acl, st.sampled_from(["topic", "group"]), names, st.just("literal"), st.sampled_from(["read", "write"])
    )
)
rates = st.dictionaries(st.sampled_from(["producer_byte_rate", "request_percentage"]), st.sampled_from([1.0, 2.0]))
states = st.fixed_dictionaries({part: st.sampled_from(["applied", "no"]) for part in steps.PARTS})
principals = st.sampled_from(["p", "q", "r"])
wanteds = st.builds(
    WantedAccess,
    principal=st.just("p"),
    cluster=st.just("c"),
    revision=st.integers(1, 3),
    acls=entries,
    credentials=st.none() | st.integers(1, 3),
    quotas=rates,
    applied=st.none() | st.integers(1, 3),
    failure=st.none() | st.just("reason"),
    parts=st.just({}) | states,
)
wanted_sets = st.dictionaries(principals, st.tuples(wanteds, st.booleans()), min_size=1).map(
    lambda found: [
        replace(each, principal=who, gone=True, acls=frozenset(), credentials=None, quotas={})
        if gone
        else replace(each, principal=who)
        for who, (each, gone) in found.items()
    ]
)
seens = st.builds(
    ObservedAccess,
    mechanism=st.just(SCRAM),
    acls=st.dictionaries(principals, entries),
    credentials=st.dictionaries(
        principals, st.dictionaries(st.sampled_from([SCRAM, "SCRAM-SHA-256"]), st.sampled_from([4096, 8193, 8194]))
    ),
    quotas=st.dictionaries(principals, rates),
    cannot=st.dictionaries(st.sampled_from(steps.PARTS), st.just("no")),
)


@given(wanted_sets, seens)
def test_the_steps_lead_to_what_is_wanted_touch_nobody_else_and_a_second_plan_is_empty(
    wanted: list[WantedAccess], seen: ObservedAccess
) -> None:
    planned = access_steps(wanted, seen)
    now = after(planned, seen)
    for each in wanted:
        if "acls" not in seen.cannot:
            assert now.acls.get(each.principal, frozenset()) == each.acls
        if "quotas" not in seen.cannot:
            assert now.quotas.get(each.principal, {}) == each.quotas
        if "credentials" not in seen.cannot:
            due = {SCRAM: iterations_of(each.credentials)} if each.credentials else {}
            assert now.credentials.get(each.principal, {}) == due
    ours = {each.principal for each in wanted}
    for before, later in (
        (seen.acls, now.acls),
        (seen.quotas, now.quotas),
        (seen.credentials, now.credentials),
    ):
        assert {who: x for who, x in before.items() if who not in ours} == {
            who: x for who, x in later.items() if who not in ours
        }
    still = [left for each in wanted if (left := recorded(planned, each)) is not None]
    assert access_steps(still, now) == []
