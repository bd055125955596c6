"""The plan of a switch in the console, and its start: confirmed by typing, with the digest, once."""

from __future__ import annotations

import html
import re
import shlex
import threading
from collections.abc import Iterator

import pytest
from httpx2 import Response

from backend.domain.switch.switch_checks import TENANT_MOVING
from backend.domain.switch.switch_commands import Abort
from backend.settings import PROJECT_ROOT
from backend.web.switch.switch_readiness import BELOW, FAILED, GATES
from backend.web.switch.switch_remedies import MAKERS
from backend.web.words.figures import span, span_range
from tests.nightly import some_now
from tests.support.api.commands_parsed import parsed
from tests.support.console.consoles import Console
from tests.support.console.switching import (
    COMPLETED,
    all_online,
    busy_group,
    client,
    clusters_say,
    commands,
    start,
)
from tests.support.console.visitors import Visitor, code, rows, said, visitor
from tests.support.database.postgres import Database

PLAN = "/switches/plan"
FROM_C1 = f"{PLAN}?from=c1&to=c2"


@pytest.fixture
def operator(acme: Console, database: Database) -> Visitor:
    all_online(database)
    return visitor(acme, "operator")


@pytest.fixture(autouse=True)
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let clusters have everything that they are asked for."""
    with clusters_say(monkeypatch):
        yield


def gates(page: Response) -> dict[str, str]:
    """Return gate -> its colour."""
    return dict(re.findall(r'data-gate="([^"]*)" data-tone="([^"]*)"', page.text))


def figure(page: Response, label: str) -> str:
    """Return a figure of the decision, with where it comes from."""
    found = page.text.partition(f"<dt>{label}</dt><dd>")[2].partition("</dd>")[0]
    return html.unescape(" ".join(re.sub("<[^>]*>", " ", found).split()))


def form_of(page: Response) -> dict[str, str]:
    """Return the hidden fields of the form that starts a switch."""
    assert page.text.index('id="start"') < page.text.index('id="readiness"'), "the start stands above the details"
    form = page.text.partition('id="start"')[2].partition("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    assert found, said(page)
    return {name: html.unescape(value) for name, value in found}


def started(acme: Console) -> list[str]:
    return [each["id"] for each in acme.rest.ok("GET", "/switches")["items"]]


def test_the_form_offers_what_there_is(operator: Visitor) -> None:
    page = operator.get(PLAN)
    assert "c1: 2 environments" in page.text and "c3: 0 environments" in page.text
    suggested = operator.get("/find/-names?kind=scope").json()
    assert {"acme", "acme/retail", "acme/retail/prod", "globex/shop/prod"} <= {each["name"] for each in suggested}
    assert "data-names=scope" in page.text
    assert 'id="plan"' not in page.text


def test_a_plan_says_whom_it_moves_what_is_lacking_and_for_how_long(
    acme: Console, database: Database, operator: Visitor
) -> None:
    client(database, "checkout-1")
    page = operator.get(FROM_C1)
    assert "c1 → to c2 2 environments of 2 tenants It can be aborted until clients move." in said(page)
    findings = page.text.partition('id="findings"')[2].partition("</ul>")[0]
    warnings = findings.count('<p class="why">')
    assert f"Ready to start {warnings} warnings" in said(page)
    assert set(gates(page)) == {*GATES, "Primary cluster c1", "Order per key on c2"}, "and the two warnings"
    assert set(GATES) == set(FAILED)
    assert "on c2 only; to have it on all leaves, wait for records on all online leaves" in said(page)
    assert "bad" not in gates(page).values()
    assert gates(page)["Clients report to discovery"] == "good"
    assert rows(page, "data-place") == {
        "acme/retail/prod": "acme/retail/prod 1",
        "globex/shop/prod": "globex/shop/prod 0",
    }
    assert rows(page, "data-stream")["acme/retail/prod/orders"] == "acme/retail/prod/orders 4 212"
    assert "c2 level 2 keeps its target: c1 is the only leaf of its subtree" in said(page)
    assert "It is the primary cluster: schema writes stay there; the page Move primary moves them" in said(page)
    assert '<a href="/tree/-primary">' in page.text and "PUT /trees" not in page.text
    assert started(acme) == []


@pytest.mark.parametrize(
    ("who", "scope"),
    [("acme", "acme/retail/prod"), ("globex/shop", "globex/shop/prod"), ("acme/retail/prod", "acme/retail/prod")],
)
def test_a_plan_of_some(operator: Visitor, who: str, scope: str) -> None:
    page = operator.get(f"{FROM_C1}&who={who}")
    assert set(rows(page, "data-place")) == {scope}
    assert "Distributors that copy to" not in said(page)


@some_now(
    "query, status, why",
    [
        ("from=c1&to=c9", 404, "there is no cluster 'c9'"),
        ("from=c1&to=c1", 200, "source and target are the same cluster"),
        ("from=c3&to=c1", 200, "no selected environment is active on this cluster"),
        ("from=c1&to=c2&who=nobody", 404, "there is no tenant 'nobody'"),
        ("from=c1&to=c2&who=a/b/c/d", 422, "must be a tenant, tenant/instance"),
        ("from=c1&to=c2&who=%3Cb%3E", 422, "must be a tenant, tenant/instance"),
        ("from=c1&to=c2&mode=sudden", 422, "must be planned or emergency"),
        ("from=c1&to=%00", 422, "cannot be read"),
        ("from=%3Cb%3E&to=c2", 422, "must be a cluster from the list"),
        ("reverses=nothing", 404, "there is no switch 'nothing'"),
    ],
    now=(0, 4, 9),
)
def test_what_cannot_be_planned_is_said_where_it_stands(
    operator: Visitor, query: str, status: int, why: str
) -> None:
    page = operator.get(f"{PLAN}?{query}")
    assert page.status_code == status
    assert why in said(page)
    assert 'id="start"' not in page.text
    assert "<b>" not in page.text


def test_a_red_gate_says_why_and_nothing_can_be_started(
    operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clusters_say(monkeypatch, groups={"c2": (busy_group(),)}):
        page = operator.get(FROM_C1)
    assert gates(page)["Groups inactive on the target"] == "bad"
    assert "Groups are active on the target : not ready" in said(page)
    assert "1 blocker: acme-retail-prod-billing: it has members on c2 (b-1)" in said(page)
    assert 'id="start"' not in page.text and "The switch cannot be started." in said(page)
    assert [*gates(page).values()] == sorted(gates(page).values(), key=("bad", "warn", "good").index)
    findings, _, passed = page.text.partition('id="passed"')
    assert (
        '<a class="out" href="/groups/-of?cluster=c2&amp;group=acme-retail-prod-billing">Open group</a>'
        in findings
    )
    assert 'data-tone="good"' not in findings.partition('id="findings"')[2]
    assert f"{passed.count('data-gate=')} checks passed" in said(page)
    assert f'href="{html.escape(FROM_C1)}">Recalculate plan</a>' in page.text


@some_now(
    "query, words",
    [
        ("", []),
        ("&who=acme/retail/prod", ["--tenant", "acme", "--instance", "retail", "--environment", "prod"]),
        (
            "&who=globex&zone=az2&drain=all_leaves",
            ["--tenant", "globex", "--zone", "az2", "--drain", "all_leaves"],
        ),
        ("&who=acme&mode=emergency", ["--tenant", "acme", "--emergency"]),
    ],
    now=(0, 2),
)
def test_the_command_that_starts_it_quotes_the_plan_that_was_looked_at(
    operator: Visitor, query: str, words: list[str]
) -> None:
    page = operator.get(f"{FROM_C1}{query}")
    given = shlex.split(code(page, "same-command"))
    assert [word for word in given if word in words] == words
    options = parsed(given[1:]).params
    assert (options["source"], options["target"], options["digest"]) == ("c1", "c2", form_of(page)["digest"])
    assert options["emergency"] == ("emergency" in query)
    assert len(given) == len(["treeline", "switch", "start"]) + 6 + len(words), "and no more than that"


@pytest.mark.nightly  # the wrong word is refused in test_the_word_that_is_typed_starts_it
def test_what_is_to_be_typed_is_said_also_where_the_browser_refuses_it(operator: Visitor) -> None:
    (confirm,) = re.findall(r'<input id="field-confirm"[^>]*>', operator.get(FROM_C1).text)
    assert "pattern=c1" in confirm
    assert 'title="Type c1, the cluster that clients leave"' in confirm


def test_every_finding_of_a_plan_has_its_gate_or_is_told_below() -> None:
    source = (PROJECT_ROOT / "backend/domain/switch/switch_checks.py").read_text()
    slugs = set(re.findall(r'slug="([a-z-]+)"', source)) | set(re.findall(r'"((?:source|target)-silent)"', source))
    below = {"source-is-primary", "order-on-target-only"}
    assert BELOW.keys() == below
    assert frozenset().union(*GATES.values()) == (slugs | {TENANT_MOVING}) - below
    assert MAKERS.keys() == (slugs | {TENANT_MOVING}) - {"source-is-primary"}, "each has a way out"


def test_the_expected_pause_covers_the_estimate_and_how_long_earlier_switches_held(
    acme: Console, database: Database, operator: Visitor
) -> None:
    first = figure(operator.get(FROM_C1), "Expected pause")
    assert re.fullmatch(r"1\.. to 1\.. s estimate by phase; aborted after 1 min", first)
    commands(database, start("s0", source="c2", target="c1"), *COMPLETED[1:], switch="s0")
    assert figure(operator.get(FROM_C1), "Expected pause") == first, "another cluster's pauses say nothing"
    commands(database, *COMPLETED)
    estimate = first.partition(" estimate")[0]
    longest = estimate.partition(" to ")[2]
    shown = figure(operator.get(FROM_C1), "Expected pause")
    assert shown == f"812 ms to {longest} estimate {estimate}; 1 earlier run: 812 ms; aborted after 1 min"


def test_what_groups_re_read_is_nothing_but_in_an_emergency(operator: Visitor) -> None:
    assert figure(operator.get(FROM_C1), "Maximum re-read records") == "0 offsets are set exactly"
    emergency = figure(operator.get(f"{FROM_C1}&mode=emergency"), "Maximum re-read records")
    assert emergency == "0 no group has committed"


@some_now(
    "query, label",
    [
        ("from=c1&to=c2", "Wait for all leaves"),
        ("from=c3&to=c1", "Open active clusters"),
        ("from=c1&to=c1", "Choose another target"),
    ],
    now=(0, 1),
)
def test_a_way_out_of_a_finding_leads_to_a_page(operator: Visitor, query: str, label: str) -> None:
    page = operator.get(f"{PLAN}?{query}")
    (address,) = re.findall(rf'<a class="out" href="([^"]*)">{label}</a>', page.text)
    path, _, anchor = html.unescape(address).partition("#")
    there = operator.get(path) if path else page
    assert there.status_code == 200
    assert not anchor or f'id="{anchor}"' in there.text
    if "plan?" in path:
        assert label not in said(there), "it is resolved there"


def test_the_word_that_is_typed_starts_it(acme: Console, operator: Visitor) -> None:
    sent = form_of(operator.get(f"{FROM_C1}&who=acme"))
    for word in ("", "c2", "C1", "yes"):
        wrong = operator.client.post(PLAN, data={**sent, "confirm": word})
        assert wrong.status_code == 422
        assert "type c1, the cluster that clients leave" in said(wrong)
    assert started(acme) == []
    answer = operator.client.post(PLAN, data={**sent, "confirm": " c1 "})
    assert answer.status_code == 303
    (switch,) = started(acme)
    assert answer.headers["location"] == f"/switches/{switch}"
    shown = acme.rest.ok("GET", f"/switches/{switch}")
    assert shown["plan_digest"] == sent["digest"]
    assert [each["tenant"] for each in shown["environments"]] == ["acme"]
    assert "Preparing" in said(operator.get(f"/switches/{switch}"))


def test_a_form_sent_twice_starts_one_switch(acme: Console, operator: Visitor) -> None:
    sent = {**form_of(operator.get(FROM_C1)), "confirm": "c1"}
    answers: list[Response] = []
    together = [
        threading.Thread(target=lambda: answers.append(operator.client.post(PLAN, data=sent))) for _ in range(3)
    ]
    for each in together:
        each.start()
    for each in together:
        each.join()
    answers.append(operator.client.post(PLAN, data=sent))
    (switch,) = started(acme)
    assert {(each.status_code, each.headers["location"]) for each in answers} == {(303, f"/switches/{switch}")}
    # The browser's Back, and the form that it has kept, lead to the started switch.
    assert "switch 1 (c1 → c2) is moving this tenant" in said(operator.get(FROM_C1))


@pytest.mark.nightly  # test_every_page sends each form without its key
def test_somebody_elses_form_starts_nothing_of_ours(acme: Console, operator: Visitor) -> None:
    sent = {**form_of(operator.get(FROM_C1)), "confirm": "c1"}
    sent.pop("key")
    assert operator.client.post(PLAN, data=sent).status_code == 403
    assert operator.send(PLAN, **{**sent, "once": "short"}).status_code == 303
    assert started(acme) == []


def test_a_plan_that_became_another_is_shown_with_what_changed(
    acme: Console, database: Database, operator: Visitor
) -> None:
    sent = {**form_of(operator.get(FROM_C1)), "confirm": "c1"}
    commands(database, *COMPLETED)  # another switch moves acme meanwhile
    stale = operator.client.post(PLAN, data=sent)
    assert stale.status_code == 409
    assert "The switch was not started because its plan has changed." in said(stale)
    changes = html.unescape(stale.text.partition('id="changes"')[2].partition("</ul>")[0])
    assert "no longer: </span>moves acme/retail/prod" in changes
    assert started(acme) == ["s1"]
    # The plan that is shown now can be started.
    again = operator.client.post(PLAN, data={**form_of(stale), "confirm": "c1"})
    assert again.status_code == 303
    assert len(started(acme)) == 2


def test_what_came_between_the_plan_and_the_start_stops_it(
    acme: Console, database: Database, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {**form_of(operator.get(FROM_C1)), "confirm": "c1"}
    with clusters_say(monkeypatch, groups={"c2": (busy_group(),)}):
        stopped = operator.client.post(PLAN, data=sent)
    assert stopped.status_code == 422
    assert "it has members on c2" in said(stopped)
    commands(database, start("s2"), switch="s2")
    busy = operator.client.post(PLAN, data=sent)
    assert "switch 1 (c1 → c2) is moving this tenant" in said(busy)
    assert started(acme) == ["s2"]


def test_an_emergency_looks_like_one_says_what_may_be_missing_and_moves_at_once(
    acme: Console, operator: Visitor
) -> None:
    page = operator.get(f"{FROM_C1}&mode=emergency&who=acme")
    assert 'class="plan emergency"' in page.text
    assert "212 records that c1 has acknowledged may be missing on c2" in said(page)
    answer = operator.client.post(PLAN, data={**form_of(page), "confirm": "c1"})
    (switch,) = started(acme)
    shown = operator.get(answer.headers["location"])
    assert "emergency" in said(shown) and "Verifying" in said(shown)
    assert acme.rest.ok("GET", f"/switches/{switch}")["state"] == "verifying"


def test_the_way_back_is_planned_from_the_switch(acme: Console, database: Database, operator: Visitor) -> None:
    commands(database, *COMPLETED)
    page = operator.get(f"{PLAN}?reverses=s1")
    assert "c2 → to c1 acme/retail/prod" in said(page)
    assert 'id="wish"' not in page.text
    assert code(page, "same-command") == "treeline switch reverse s1"
    answer = operator.client.post(PLAN, data={**form_of(page), "confirm": "c2"})
    back = acme.rest.ok("GET", answer.headers["location"])
    assert (back["from"], back["to"], back["reverses"]) == ("c2", "c1", "s1")
    assert "reverses Switch 1 · c1 → c2" in said(operator.get(answer.headers["location"]))


def test_one_that_was_aborted_can_be_planned_again(acme: Console, database: Database, operator: Visitor) -> None:
    commands(database, start(), Abort(by="operator"))
    page = operator.get("/switches/s1")
    assert 'href="/switches/plan?from=c1&amp;to=c2"' in page.text
    assert "Aborted" in said(page)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (812, "812 ms"),
        (4_200, "4.2 s"),
        (60_000, "1 min"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (277_200_000, "3 d 5 h"),
    ],
)
def test_spans(ms: int, text: str) -> None:
    assert span(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        ((1_400, 4_200), "1.4 to 4.2 s"),
        ((812, 1_400), "812 ms to 1.4 s"),
        ((1_401, 1_402), "1.4 s"),
        ((65_000, 185_000), "1 min 5 s to 3 min 5 s"),
        ((60_000, 180_000), "1 to 3 min"),
        ((60_000, 185_000), "1 min to 3 min 5 s"),
    ],
)
def test_ranges_of_spans(ms: tuple[int, int], text: str) -> None:
    assert span_range(*ms) == text
