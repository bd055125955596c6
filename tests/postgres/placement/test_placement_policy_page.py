"""The console's view and form of the placement policy."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from backend.deciders import PLACEMENT
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import HoldBack, Proposal
from backend.domain.placement.placements import RequestPlacement
from backend.queries.base.observed import cluster_brokers
from backend.queries.clusters.broker_presence import store_brokers
from tests.support.console.consoles import Console
from tests.support.console.placing import GROWN, ask, documents, planned
from tests.support.console.replicating import look, looked_at, online
from tests.support.console.visitors import Visitor, code, hidden, record, said, values, visitor
from tests.support.database.postgres import Database

PAGE = "/clusters/c1/replication"
FORM = f"{PAGE}/-policy"


@pytest.fixture
def operator(acme: Console, database: Database) -> Visitor:
    online(database)
    look(database, looked_at())
    return visitor(acme, "operator")


def seen(database: Database, *looks: dict[int, tuple[bool, bool]], minutes: int = 0) -> None:
    """Record observations one after another, the last of them this long ago."""
    with database.engine.begin() as connection:
        for brokers in looks:
            store_brokers(connection, "K1", brokers)
        earlier = cluster_brokers.c.since - sa.text(f"interval '{minutes} minutes'")
        connection.execute(sa.update(cluster_brokers).values(since=earlier))


def test_the_page_says_what_is_done_and_what_is_seen_of_brokers(operator: Visitor, database: Database) -> None:
    page = operator.get(PAGE)
    assert (
        "When brokers join or leave, a plan is proposed for review, and nothing moves. An unavailable broker "
        "counts as having left after 30 minutes."
    ) in said(page)
    assert 'id="come-and-gone"' not in page.text
    held, empty, away = (True, False), (True, True), (False, False)
    known = {1: held, 2: held, 3: held, 5: held}
    seen(database, known, {**known, 2: away, 4: empty, 5: empty}, minutes=5)
    page = said(operator.get(PAGE))
    for what in ("2 is away", "4 has joined and holds no replicas yet", "5 is meant to be empty"):
        assert f"Broker {what}, for 5 min" in page


def test_it_is_set_by_a_form_with_a_preview(acme: Console, operator: Visitor) -> None:
    form = operator.get(FORM)
    assert values(form)["away_minutes"] == "30" and '<option value="propose" selected>' in form.text
    wish = {"policy": "apply", "away_minutes": "45", "bytes_per_second": "20 MiB"}
    wish |= {"moves_per_broker": "3", "partitions_at_once": "100"}
    preview = operator.client.post(FORM, data={**hidden(form), **wish, "step": "preview"})
    assert "When brokers of c1 join or leave, a plan is proposed and applied, unless" in said(preview)
    assert "the policy at the time of the proposal counts" in said(preview)
    command = code(preview, "same-command")
    assert command.startswith(
        "treeline placement policy c1 --set apply --away-minutes 45 --bytes-per-second 20971520"
    )
    policy = "/clusters/c1/placement-policy"
    assert acme.rest.ok("GET", policy)["policy"] == "propose", "nothing was done yet"
    done = operator.client.post(FORM, data={**hidden(preview), "step": "confirm"}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, PAGE)
    now = acme.rest.ok("GET", policy)
    assert (now["policy"], now["away_minutes"], now["limits"]["moves_per_broker"]) == ("apply", 45, 3)
    assert values(operator.get(FORM))["bytes_per_second"] == "20 MiB"
    # A caller who opened the form before somebody else set the policy is told so.
    late = operator.client.post(FORM, data={**hidden(form), **wish, "policy": "off", "step": "preview"})
    assert late.status_code == 412 and "somebody changed it since" in said(late)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"policy": "always"}, "must be one of off, propose, apply"),
        ({"away_minutes": "soon"}, "must be a whole number"),
        ({"away_minutes": "0"}, "must be from 1 to 43200, not 0"),
        ({"bytes_per_second": "fast"}, "must be like 1 MiB"),
        ({"moves_per_broker": "0"}, "must be from 1 to 1000000, not 0"),
    ],
)
def test_what_cannot_be_meant_stands_at_its_field(operator: Visitor, wrong: dict[str, str], told: str) -> None:
    form = operator.get(FORM)
    sent = {**hidden(form), **values(form), "policy": "apply", **wrong}
    answer = operator.client.post(FORM, data={**sent, "step": "preview"})
    assert answer.status_code == 422 and told in said(answer)
    assert f'id="wrong-{next(iter(wrong))}"' in answer.text


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_sets_nothing(acme: Console, database: Database, kind: str) -> None:
    online(database)
    look(database, looked_at())
    who = visitor(acme, kind)
    assert 'id="set-policy"' not in who.get(PAGE).text
    assert who.get(FORM).status_code == 403


def test_a_proposal_says_why_it_was_made_and_why_it_is_held_back(operator: Visitor, database: Database) -> None:
    proposal = Proposal(policy="apply", joined=(7, 8, 9), left=(2,))
    wish = RequestPlacement(
        placement="p1", cluster="c1", aims=Aims(), known_clusters=frozenset({"c1"}), proposal=proposal
    )
    record(database, wish, PLACEMENT, "placement-p1")
    planned(database, "p1", documents(GROWN))
    record(database, HoldBack(reason="the plan has violations"), PLACEMENT, "placement-p1")
    page = said(operator.get("/placements/p1"))
    assert "because brokers 7-9 joined and broker 2 left" in page
    assert "Not applied automatically: the plan has violations." in page
    assert "not applied automatically" in said(operator.get("/placements"))
    assert '<a href="/placements/p1">Placement 1</a> is proposed' in operator.get(PAGE).text
    ask(database, "p2")
    assert 'id="proposed"' not in operator.get(PAGE).text, "somebody is at work"
