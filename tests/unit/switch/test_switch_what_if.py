"""The plan of a switch as it would be if clusters, zones or brokers were gone."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from backend.changes import switch_start
from backend.domain.base.errors import PlanStale
from backend.domain.switch.switch_facts import BrokerLossFact, Facts, OutcomeFact, Without
from backend.domain.switch.switch_plan import Plan, make
from tests.unit.switch.switch_facts import FACTS, ORDERS, REQUEST, active, stream
from tests.unit.switch.test_switch_plan import PENDING, slugs


def what_if(facts: Facts = FACTS, **without: frozenset[str]) -> Plan:
    return make(facts, replace(REQUEST, mode="emergency", without=Without(**without)))


def test_a_what_if_says_who_would_have_to_move_and_whose_records_would_stop() -> None:
    web = active(("globex", "shop", "web"), cluster="2")
    facts = replace(
        FACTS,
        active=(active(), web),
        other_streams=(stream("globex/shop/web/items", applied={**PENDING, "5": "failed"}),),
        at_risk={**FACTS.at_risk, "2": 12},
    )
    plan = what_if(facts, zones=frozenset({"az2"}))
    told = plan.what_if
    assert told is not None and told.gone == ("2",)
    assert [(each.tenant, each.could_go_to) for each in told.must_move] == [
        ("acme", ("1", "3", "4", "5")),
        ("globex", ("1", "3")),
    ]
    assert {(each.cluster, each.level) for each in told.edges} >= {("2", 1), ("2", 2), ("2", 3), ("3", 1)}
    # 1 copies to 2, which copies to 3; 5 copies to 2, and so to all on that side.
    assert {each.origin: each.unreached for each in told.cut_routes} == {"1": ("3",), "4": ("3",), "5": ("1", "3")}
    assert told.records_at_risk == {"2": 12}
    assert plan.blockers == (), "an emergency is for just that"
    assert make(facts, REQUEST).what_if is None


def test_a_target_that_is_supposed_to_be_gone_is_offline() -> None:
    assert slugs(what_if(clusters=frozenset({"4"})).blockers) == [("target-offline", "4")]
    planned = make(FACTS, replace(REQUEST, without=Without(clusters=frozenset({"2"}))))
    assert {"source-offline", "edge-blocked"} <= {each.slug for each in planned.blockers}


def test_a_broker_that_is_supposed_to_be_gone_leaves_the_plan_as_it_is() -> None:
    offline = OutcomeFact(what="offline", count=1, examples=(f"{ORDERS}-0",), meaning="nobody can lead")
    gone = BrokerLossFact(
        cluster="2", broker=1, replicas=3, sentence="If broker 1 died now, ...", outcomes=(offline,),
        longest_away_ms=0, session_ms=9_000, assumed=(), settings_unseen=0,
    )  # fmt: skip
    facts = replace(FACTS, answers=replace(FACTS.answers, brokers_gone=(gone,)))
    without = make(facts, replace(REQUEST, without=Without(brokers=(("2", 1),))))
    told = without.document()["what_if"]
    assert told["brokers"] == (asdict(gone),)
    assert (told["gone"], told["edges"], told["must_move"], told["records_at_risk"]) == ((), (), (), {})
    plain = make(FACTS, REQUEST)
    assert replace(without, request=REQUEST, what_if=None, digest=plain.digest) == plain
    with pytest.raises(PlanStale):  # whoever starts a switch supposes nobody to be gone
        switch_start.check(plain, without.digest)
