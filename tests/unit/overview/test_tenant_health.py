"""The verdict on a tenant's streams, groups and switches."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from backend.domain.offsets.group_diagnosis import NO_MEMBERS
from backend.domain.overview.estate_facts import GroupFact, GroupsFact, StreamFact, SwitchFact, TenantFacts
from backend.domain.overview.tenant_health import PENDING_AFTER, tenant_health

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
ORDERS = StreamFact(stream="acme/retail/prod/orders", applied=1, clusters=3, since=NOW - timedelta(seconds=5))
FINE = TenantFacts(now=NOW, streams=4, groups_observed=2)


def test_a_tenant_in_order_is_said_in_figures() -> None:
    health = tenant_health(FINE)
    assert health.is_fine
    assert health.verdict == "All 4 streams applied on all clusters, 2 consumer groups without problems."
    assert tenant_health(TenantFacts(now=NOW)).verdict == "There are no streams yet: declare the first one."


def test_a_stream_that_waits_for_long_is_a_problem_and_a_new_one_is_not() -> None:
    fresh = tenant_health(replace(FINE, pending=(ORDERS,)))
    assert fresh.is_fine and fresh.verdict.startswith("3 of 4 streams applied")
    assert [each.code for each in fresh.problems] == ["stream-applying"]
    waiting = replace(ORDERS, since=NOW - PENDING_AFTER - timedelta(seconds=1))
    old = tenant_health(replace(FINE, pending=(waiting,)))
    assert not old.is_fine
    assert old.verdict == "Stream acme/retail/prod/orders is not applied yet on 2 of 3 clusters."
    failed = tenant_health(replace(FINE, pending=(replace(waiting, has_failed=True),)))
    assert failed.verdict == "Stream acme/retail/prod/orders could not be applied on 2 of 3 clusters."
    assert failed.problems[0].way_out.address == "/tenants/acme/retail/prod/orders"


def test_streams_are_counted_beyond_those_that_are_named() -> None:
    pending = [replace(ORDERS, stream=f"acme/retail/prod/s{number}", has_failed=True) for number in range(4)]
    health = tenant_health(replace(FINE, streams=400, pending=pending, more_pending=100))
    assert health.counts["streams_not_applied"] == 104
    (problem,) = health.problems
    assert problem.text.endswith("s2 and 1 more could not be applied everywhere.")
    assert problem.way_out.address == "/tenants"
    fresh = replace(FINE, streams=400, pending=(ORDERS,), more_pending=100)
    assert tenant_health(fresh).verdict.startswith("299 of 400 streams applied")


def test_groups_and_switches_lead_to_pages_that_a_tenant_may_see() -> None:
    group = GroupFact(cluster="c1", technical_group="a-b", name="b", text="No members.", since=NOW)
    switch = SwitchFact(id="s1", source="c1", target="c2", phase="holding", places=("acme/retail/prod",))
    facts = replace(FINE, groups=(GroupsFact(code=NO_MEMBERS, count=1, worst=(group,)),), switches=(switch,))
    health = tenant_health(facts)
    assert [each.code for each in health.problems] == ["group-no-members", "switch-running"]
    assert health.problems[1].text == (
        "The switch of clients of acme/retail/prod from c1 to c2 is in progress: holding."
    )
    assert health.problems[1].way_out.address == "/tenants/acme/retail/prod"
    assert health.counts == {
        "streams": 4,
        "streams_not_applied": 0,
        "groups": 2,
        "groups_with_problems": 1,
        "switches_running": 1,
    }
