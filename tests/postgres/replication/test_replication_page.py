"""The page of a cluster's replication, with recorded observations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from backend.queries.base.observed import cluster_replication
from backend.queries.replication.replication import store_failure
from backend.web.words.figures import instant
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.replicating import look, looked_at, online
from tests.support.console.visitors import Visitor, hidden, said, values, visitor
from tests.support.database.postgres import Database

PAGE = "/clusters/c1/replication"


@pytest.fixture
def operator(acme: Console, database: Database) -> Visitor:
    online(database)
    return visitor(acme, "operator")


def alerts(text: str) -> list[str]:
    return re.findall(r'id="alert-([a-z-]+)"', text)


def test_all_is_well(operator: Visitor, database: Database) -> None:
    look(database, looked_at())
    page = operator.get(PAGE)
    assert "All replicas are in sync" in said(page) and "6 brokers, 3 topics, 26 partitions." in said(page)
    assert alerts(page.text) == [] and 'id="elect"' not in page.text
    assert "Alerts none" in said(page)
    assert len(re.findall('data-broker="', page.text)) == 6 and "30.0 s" in said(page)


def test_what_is_wrong_is_said_with_what_to_do(operator: Visitor, database: Database) -> None:
    look(database, looked_at(away=(6,)))
    page = operator.get(PAGE)
    assert "Degraded" in said(page) and "5 brokers, 1 offline" in said(page)
    assert alerts(page.text)[:3] == ["broker-away", "under-replicated", "down-to-min-isr"]
    assert "1 broker offline Start it." in said(page) and "12 partitions under-replicated" in said(page)
    assert "acme-retail-prod-orders-3 , acme-retail-prod-orders-4 , " in said(page)
    assert '<tr data-broker="6" data-tone="bad">' in page.text
    # Its form is filled in with the brokers that are left.
    address = re.search(r'href="(/placements/-new\?cluster=c1&amp;target_brokers=[^"]*)"', page.text)
    assert address is not None
    form = operator.get(address[1].replace("&amp;", "&"))
    assert values(form)["target_brokers"] == "1-5" and '<option value="c1" selected>' in form.text


def test_electing_begins_with_a_preview_that_asks_the_cluster(
    acme: Console, operator: Visitor, database: Database
) -> None:
    look(database, looked_at(elsewhere=(1,)))
    page = operator.get(PAGE)
    assert "Elect preferred leaders (5 partitions)" in said(page)
    # Nobody listens where this cluster is said to be.
    answer = operator.client.post(f"{PAGE}/-elect", data={**hidden(page), "step": "preview"})
    assert answer.status_code == 503 and "leaders could not be elected: c1: " in said(answer)
    assert 'name="topics"' in answer.text, "it is the form"
    assert acme.rest.ok("GET", "/events?limit=500")["items"][-1]["name"] != "PreferredLeadersElected"


@some_now("seen", ["", "[", "[]", "1", "{}", '{"digest": "", "elected": 1, "leads": {"a": [1, 2]}}'], now=(0, 5))
def test_an_election_that_was_not_previewed_is_refused_before_the_cluster_is_asked(
    operator: Visitor, seen: str
) -> None:
    answer = operator.send(f"{PAGE}/-elect", step="confirm", once="x" * 22, seen=seen)
    assert answer.status_code == 422 and "this form is invalid" in said(answer)


def test_an_election_of_too_many_topics_is_refused_at_its_field(operator: Visitor) -> None:
    names = "\n".join(f"t{number}" for number in range(1001))
    answer = operator.send(f"{PAGE}/-elect", step="preview", topics=names)
    assert answer.status_code == 422 and "names 1,001 topics; at most 1,000" in said(answer)


@some_now("kind", ["viewer", "owner"], now=(1,))
def test_who_may_not_change_the_estate_elects_nobody(acme: Console, database: Database, kind: str) -> None:
    online(database)
    look(database, looked_at(elsewhere=(1,)))
    who = visitor(acme, kind)
    if kind == "viewer":
        page = who.get(PAGE)
        assert (
            'id="elect"' not in page.text and 'id="why-not"' in page.text and "/placements/-new" not in page.text
        )
    else:
        assert who.get(PAGE).status_code == 403
    assert who.send(f"{PAGE}/-elect").status_code == who.get(f"{PAGE}/-elect").status_code == 403


def test_what_cannot_be_seen_now_was_seen_then(operator: Visitor, database: Database) -> None:
    assert "Not observed yet" in said(operator.get(PAGE))
    look(database, looked_at())
    with database.engine.begin() as connection:
        store_failure(connection, "K1", "c1 does not answer")
    page = operator.get(PAGE)
    assert "Not observable now c1 does not answer. The data below was observed " in said(page).replace("C1", "c1")
    assert len(re.findall('data-broker="', page.text)) == 6


def test_an_old_look_is_not_taken_for_now(operator: Visitor, database: Database) -> None:
    look(database, looked_at())
    with database.engine.begin() as connection:
        an_hour = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        connection.execute(sa.update(cluster_replication).values(seen_at=an_hour))
    answer = operator.get(PAGE)
    page, then = said(answer), f"{instant(an_hour)} UTC"
    assert f"Not observable now The data below was observed {then} ." in page and f"observed {then}" in page
    assert f'datetime="{an_hour:%Y-%m-%dT%H:%M:%S}.000Z"' in answer.text
    assert f"{then} . No worker has observed the cluster since. Check that" in page
    assert page.count("No worker") == 1
    assert "All replicas are in sync" not in page


def test_it_follows_by_itself(operator: Visitor, database: Database) -> None:
    look(database, looked_at())
    assert f'hx-get="{PAGE}/-live"' in operator.get(PAGE).text
    look(database, looked_at(away=(2, 3)))
    news = operator.get(f"{PAGE}/-live")
    assert "Clients are refused: replication of c1" in news.text and alerts(news.text)[0] == "under-min-isr"
    assert "<html" not in news.text


def test_clusters_are_listed_with_placements(operator: Visitor, database: Database) -> None:
    look(database, looked_at(away=(6,)))
    page = operator.get("/placements")
    assert f'<a href="{PAGE}">c1</a>' in page.text
    assert "Degraded 1 broker offline and 4 more" in said(page), said(page)
    assert 'id="clusters"' not in operator.get("/placements?at=1").text, "what is observed is not kept"


@some_now("name", ["c9", "%00", "a%20b"], now=(0,))
def test_a_cluster_that_is_not_known_has_no_page(operator: Visitor, name: str) -> None:
    for path in (f"/clusters/{name}/replication", f"/clusters/{name}/replication/-live"):
        assert operator.get(path).status_code == 404
    assert operator.get(f"/clusters/{name}/replication/-elect").status_code == 404
    assert operator.send(f"/clusters/{name}/replication/-elect").status_code == 404


def test_a_topic_of_a_declared_stream_leads_to_it(operator: Visitor, database: Database) -> None:
    found = looked_at(away=(6,))
    told = {"severity": "advice", "count": 2, "examples": ["acme-retail-prod-orders", "of-nobody"]}
    look(database, {**found, "alerts": [*found["alerts"], {"alert": "one-copy-acknowledged", **told}]})
    page = operator.get(PAGE)
    stream = "/tenants/acme/retail/prod/orders"
    assert f'<a href="{stream}">acme-retail-prod-orders-3</a>' in page.text, "a partition of an alert"
    assert f'<a href="{stream}">acme-retail-prod-orders</a>, of-nobody</p>' in page.text
    conditions = page.text.partition('id="conditions"')[2]
    assert f'<a href="{stream}">acme-retail-prod-orders-3</a>, ' in conditions
    # Nobody has declared this one.
    assert "payments-" in page.text and "/payments" not in page.text
    assert operator.get(stream).status_code == 200


def test_what_colours_and_bars_mean_is_said_in_words(operator: Visitor, database: Database) -> None:
    look(database, looked_at(away=(2, 3), elsewhere=(1,)))
    page = operator.get(PAGE)
    assert re.search(r"critical \d+ partitions below min.insync.replicas", said(page))
    assert "warning 2 brokers offline" in said(page) and "advice " in said(page)
    for heading in ("Share of replicas", "Share of leaders"):
        assert f'<th scope="col" class="bars">{heading}</th>' in page.text


def test_a_document_of_another_version_is_shown_as_far_as_it_is_known(
    operator: Visitor, database: Database
) -> None:
    found = looked_at()
    odd = {"alert": "something-new", "severity": "grave", "count": 2, "examples": ["a"], "what_to_do": "See."}
    look(database, {"topics": 1, "partitions": 2, "brokers": found["brokers"], "alerts": [odd]})
    assert "grave Something new: 2 See. a and 1 more" in said(operator.get(PAGE))


def test_topics_that_are_not_as_declared_lead_to_the_placement_that_makes_them_so(
    operator: Visitor, database: Database
) -> None:
    online(database)
    told = {
        "alert": "factor-not-as-declared",
        "count": 1,
        "examples": ["t"],
        "what_to_do": "treeline placement plan",
    }
    severities = [{**told, "severity": each} for each in ("warning", "advice")]
    look(database, {**looked_at(), "alerts": severities})
    page = operator.get(PAGE)
    assert "1 topic with a replication factor other than declared" in said(page)
    ids = re.findall(r'id="(alert-[^"]*)"', page.text)
    assert ids == ["alert-factor-not-as-declared", "alert-factor-not-as-declared-more"]
    address = "/placements/-new?cluster=c1&replication_factor=declared"
    assert address.replace("&", "&amp;") in page.text
    assert values(operator.get(address))["replication_factor"] == "declared"
