"""Topics that a cluster holds are taken over: the plan as a page, its beginning, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.changes import adoptions as changes
from backend.domain.base.errors import ClusterSilent
from backend.domain.clusters.adoption_facts import FoundTopic
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, rows, said, visitor
from tests.unit.clusters.test_adoption import TOPIC

PAGE = "/clusters/c1/-adopt"
PAYMENTS = replace(TOPIC, topic="acme-retail-prod-payments", topic_id="t2", records=1204)
UNREADABLE = replace(TOPIC, topic="a-b-c-d-e", topic_id="t3")


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


@pytest.fixture
def holds(monkeypatch: pytest.MonkeyPatch) -> list[FoundTopic]:
    return held(monkeypatch)


def held(monkeypatch: pytest.MonkeyPatch) -> list[FoundTopic]:
    """Give c1 these topics and no groups; the other clusters have nothing."""
    topics = [PAYMENTS, UNREADABLE]

    def survey(*given: Any) -> tuple[list[FoundTopic], list[tuple[str, str]]]:
        return list(topics), []

    def holdings(places: Any, *given: Any) -> Mapping[str, Mapping[str, FoundTopic]]:
        return {place.cluster: {} for place in places}

    monkeypatch.setattr(changes, "survey", survey)
    monkeypatch.setattr(changes, "holdings", holdings)
    return topics


def test_the_plan_says_what_becomes_of_each_topic(operator: Visitor, holds: list[FoundTopic]) -> None:
    page = operator.get(PAGE)
    plan = rows(page, "data-topic")
    assert plan["acme-retail-prod-payments"] == (
        "acme-retail-prod-payments becomes a new stream acme/retail/prod/payments 4 1,204"
    )
    assert "matches several streams" in plan["a-b-c-d-e"] and "a/b/c/d-e" in plan["a-b-c-d-e"]
    assert "1 topic matches several streams, 1 topic becomes a new stream" in said(page)


def test_topics_are_taken_over_as_they_were_looked_at(
    acme: Console, operator: Visitor, holds: list[FoundTopic]
) -> None:
    preview = operator.client.post(PAGE, data={**hidden(operator.get(PAGE)), "step": "preview"})
    assert "1 topic of c1 will be adopted in place" in said(preview)
    assert "acme-retail-prod-payments → acme/retail/prod/payments: 4 partitions, 1,204 records" in said(preview)
    assert code(preview, "same-command") == "treeline adopt c1"
    sent = {**hidden(preview), "step": "confirm"}
    assert sent["digest"] in code(preview, "same-curl")
    holds.append(replace(TOPIC, topic="acme-retail-prod-late", topic_id="t9"))
    late = operator.client.post(PAGE, data=sent)
    assert late.status_code == 409 and "has changed since you read it" in said(late)
    holds.pop()
    done = operator.client.post(PAGE, data=sent)
    where = done.headers["location"]
    assert done.status_code == 303 and where.startswith("/operations/adoption-")
    page = said(operator.get(where))
    assert "Adoption of topics" in page and "in progress" in page
    begun = acme.rest.ok("GET", "/operations/" + where.rpartition("/")[2])
    assert begun["state"] == "running"


def test_an_ambiguous_name_is_said_and_only_some_are_chosen(operator: Visitor, holds: list[FoundTopic]) -> None:
    given = {"as": "a/b/c/d-e=a-b-c-d-e", "topics": "a-b-c-d-e\n"}
    preview = operator.client.post(PAGE, data={**hidden(operator.get(PAGE)), **given, "step": "preview"})
    assert "a-b-c-d-e → a/b/c/d-e" in said(preview) and "payments" not in said(preview)
    assert code(preview, "same-command") == "treeline adopt c1 --topic a-b-c-d-e --as a/b/c/d-e=a-b-c-d-e"


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({"topics": "none"}, "topics", "c1 has no topic 'none'"),
        ({"topics": "a-b-c-d-e"}, "topics", "several"),
        ({"as": "a/b=a-b-c-d-e"}, "as", "is not tenant/instance/environment/stream=topic"),
    ],
)
def test_what_cannot_be_meant_stands_at_its_field(
    operator: Visitor, holds: list[FoundTopic], given: dict[str, str], field: str, told: str
) -> None:
    answer = operator.client.post(PAGE, data={**hidden(operator.get(PAGE)), **given, "step": "preview"})
    assert answer.status_code == 422 and told in said(answer) and f'id="wrong-{field}"' in answer.text


def test_with_nothing_to_take_over_there_is_nothing_to_confirm(operator: Visitor, holds: list[FoundTopic]) -> None:
    holds.clear()
    page = operator.get(PAGE)
    assert "No topics." in said(page)
    preview = operator.client.post(PAGE, data={**hidden(page), "step": "preview"})
    assert "there is no topic to adopt" in said(preview) and 'value="confirm"' not in preview.text


def test_a_cluster_that_does_not_answer_is_told(operator: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*given: Any) -> None:
        raise ClusterSilent("c1 does not answer: connection refused")

    monkeypatch.setattr(changes, "survey", silent)
    page = operator.get(PAGE)
    assert page.status_code == 503 and "c1 does not answer" in said(page)


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_adopts_nothing(acme: Console, kind: str) -> None:
    assert visitor(acme, kind).get(PAGE).status_code == 403


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, open_page, folder: Path | None, holds: list[FoundTopic]) -> None:
    page = open_page(acme, PAGE)
    taken(page, "adoption", folder)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Adopt topics").wait_for()
    taken(page, "adoption-preview", folder)
