"""The form that creates a plan: fields, preview, submission, errors, and the equivalent command and curl call."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest

from backend.deciders import CLUSTER
from backend.domain.base.errors import ValueInvalid
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.tenants.stream_records import RecordApplied
from backend.web.placement.placement_form import MOST_TYPED, broker_ids
from backend.web.words.figures import id_ranges
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.placing import ask
from tests.support.console.visitors import API_PROD, Visitor, code, hidden, record, said, values, visitor
from tests.support.database.postgres import Database

NEW = "/placements/-new"
FULL = {
    "cluster": "c1",
    "target_brokers": "1-3, 7",
    "replication_factor": "3",
    "excluded_topics": "audit\nlegacy.events",
    "no_leaders": "7",
}


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


def asked_for(console: Console) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.rest.ok("GET", "/placements")["items"]
    return found


def test_a_plan_is_asked_for_once_however_often_the_form_is_sent(acme: Console, operator: Visitor) -> None:
    preview = operator.preview(NEW, **FULL)
    assert "A worker reads c1 and plans its replicas. Nothing is moved." in said(preview)
    assert "c1 is offline: planning fails unless the cluster is reachable by then." in said(preview)
    assert "Target brokers 1-3, 7" in said(preview)
    assert asked_for(acme) == []
    sent = {**hidden(preview), "step": "confirm"}
    answers = [operator.client.post(NEW, data=sent) for _ in range(2)]
    assert [each.status_code for each in answers] == [303, 303]
    (found,) = asked_for(acme)
    assert {each.headers["location"] for each in answers} == {f"/placements/{found['id']}"}
    assert found | {"id": ""} == {
        "id": "",
        "cluster": "c1",
        "state": "requested",
        "target_brokers": [1, 2, 3, 7],
        "replication_factor": 3,
        "excluded_topics": ["audit", "legacy.events"],
        "no_leaders": [7],
        "given": None,
        "as_declared": False,
        "digest": None,
        "summary": None,
        "reason": None,
        "run": 0,
        "limits": None,
        "report": None,
        "proposal": None,
    }
    (event,) = (e for e in acme.rest.ok("GET", "/events?limit=200")["items"] if e["name"] == "PlacementRequested")
    assert event["metadata"]["actor"] == "operator"


def test_what_is_left_empty_stays_as_it_is(acme: Console, operator: Visitor) -> None:
    operator.confirm(NEW, cluster="c2")
    operator.confirm(NEW, cluster="c2", replication_factor="orders=3 payments=2")
    by_topic, plain = asked_for(acme)
    assert (plain["target_brokers"], plain["replication_factor"], plain["no_leaders"]) == (None, None, [])
    assert by_topic["replication_factor"] == {"orders": 3, "payments": 2}


def test_the_same_elsewhere(operator: Visitor) -> None:
    preview = operator.preview(NEW, cluster="c1", target_brokers="1-3", replication_factor="2")
    command = "treeline placement plan --cluster c1 --target-brokers 1,2,3 --replication-factor 2"
    assert code(preview, "same-command") == command
    call = code(preview, "same-curl")
    assert call.startswith('curl -X POST "$TREELINE_URL/api/v1/placements"')
    assert '{"cluster": "c1", "target_brokers": [1, 2, 3], "replication_factor": 2}' in call
    # The command has no option for the rest.
    preview = operator.preview(NEW, **FULL)
    assert 'id="same-command"' not in preview.text
    assert '"excluded_topics": ["audit", "legacy.events"], "no_leaders": [7]' in code(preview, "same-curl")


def test_what_streams_declare_is_named_in_the_preview_and_asked_for_again(
    acme: Console, database: Database, operator: Visitor
) -> None:
    wish = {"cluster": "c1", "replication_factor": "declared"}
    refused = operator.send(NEW, step="preview", once="x" * 20, **wish)
    assert refused.status_code == 422 and "no stream has a topic on c1" in said(refused)
    acme.rest.ok("PATCH", f"{API_PROD}/streams/orders", {"replication_factor": 3})
    record(database, RecordOnline(kafka_cluster_id="K1", brokers=2), CLUSTER, "cluster-c1")
    place = {"instance": "retail", "environment": "prod", "stream": "orders"}
    record(database, RecordApplied(**place, cluster="c1", topic_id="T", replication_factor=1))
    preview = operator.preview(NEW, **wish)
    assert "as declared: acme-retail-prod-orders: 2" in said(preview)
    command = "treeline placement plan --cluster c1 --replication-factor declared"
    assert code(preview, "same-command") == command
    assert '{"cluster": "c1", "replication_factor": "declared"}' in code(preview, "same-curl")
    operator.confirm(NEW, **wish)
    (found,) = asked_for(acme)
    assert (found["replication_factor"], found["as_declared"]) == ({"acme-retail-prod-orders": 2}, True)
    again = operator.get(f"{NEW}?like={found['id']}")
    assert values(again)["replication_factor"] == "declared"


@some_now(
    "field, value, problem",
    [
        ("cluster", "", "choose a cluster"),
        ("cluster", "c9", "there is no cluster 'c9'"),
        ("target_brokers", "1, two", "must be broker ids such as 1, 2, 5-8; 'two' is not valid"),
        ("target_brokers", "5-2", "5-2 is not a valid range"),
        ("target_brokers", "0-9999999999", "lists more than 10,000 brokers"),
        ("target_brokers", "9999999999", "must be a broker's id, not 9999999999"),
        ("no_leaders", "-1", "must be broker ids"),
        ("replication_factor", "three", "must be a whole number"),
        ("replication_factor", "0", "must be from 1 to 100, not 0"),
        (
            "replication_factor",
            "orders=3 payments",
            "must be a number, declared, or TOPIC=NUMBER such as orders=3; 'payments' is not valid",
        ),
        ("replication_factor", "orders=101", "must be from 1 to 100, not 101"),
    ],
    now=(1, 2),
)
def test_what_is_refused_is_said_at_its_field(
    acme: Console, operator: Visitor, field: str, value: str, problem: str
) -> None:
    given = {**FULL, field: value}
    for step in ("preview", "confirm"):
        answer = operator.send(NEW, step=step, once="x" * 20, **given)
        assert answer.status_code == 422
        assert f'id="wrong-{field}"' in answer.text
        assert problem in said(answer)
    # What was typed is still there.
    assert values(answer)["no_leaders"] == given["no_leaders"]
    checked = operator.send(NEW, step="check", **given)
    assert checked.status_code == 200
    assert 'class="verdict no"' in checked.text
    assert asked_for(acme) == []


def test_text_that_no_database_holds_is_refused(acme: Console, operator: Visitor) -> None:
    for field in ("cluster", "excluded_topics"):
        assert operator.send(NEW, step="preview", **{**FULL, field: "a\x00b"}).status_code == 422


GIVEN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 1]}]}


def test_a_reassignment_is_handed_in(acme: Console, operator: Visitor) -> None:
    sent = {"cluster": "c1", "reassignment": json.dumps(GIVEN)}
    preview = operator.preview(NEW, **sent)
    assert "A worker reads c1 and checks the reassignment. Nothing is moved." in said(preview)
    assert "Submitted reassignment 1 partition" in said(preview)
    command = "treeline placement plan --cluster c1 --from-reassignment moves.json"
    assert code(preview, "same-command") == command
    operator.confirm(NEW, **sent)
    (found,) = asked_for(acme)
    assert (found["given"], found["cluster"]) == (1, "c1")
    page = operator.get(f"/placements/{found['id']}")
    assert "Submitted reassignment 1 partition" in said(page)
    again = operator.get(f"{NEW}?like={found['id']}")
    assert json.dumps(GIVEN) in unescape(again.text)


@pytest.mark.nightly  # test_a_reassignment_is_handed_in has a short one
def test_the_longest_reassignment_is_taken_and_a_longer_one_is_not_asked_for_again(
    acme: Console, operator: Visitor
) -> None:
    rows = [{"topic": "orders", "partition": at, "replicas": [2, 1]} for at in range(20_000)]
    sent = {"cluster": "c1", "reassignment": json.dumps({"partitions": rows[:14_000]})}
    assert MOST_TYPED * 0.9 < len(sent["reassignment"]) <= MOST_TYPED
    operator.confirm(NEW, **sent)
    assert [each["given"] for each in asked_for(acme)] == [14_000]
    begun = acme.rest.ok("POST", "/placements", {"cluster": "c1", "reassignment": {"partitions": rows}})
    again = operator.get(f"{NEW}?like={begun['id']}")
    assert "too long for this form" in said(again) and "--from-reassignment moves.json" in said(again)
    assert len(again.text) < MOST_TYPED


@some_now(
    "fields, told",
    [
        ({"reassignment": "{"}, "invalid JSON"),
        ({"reassignment": "[]"}, "must be an object with version and partitions"),
        ({"reassignment": '{"version": 1, "version": 1}'}, 'an object has "version" twice'),
        ({"reassignment": '{"partitions": [{"topic": "a"}]}'}, "/partitions/0/partition: must be a partition"),
        ({"reassignment": json.dumps(GIVEN), "no_leaders": "7"}, "cannot be combined with a reassignment"),
    ],
    now=(0, 4),
)
def test_what_cannot_be_handed_in_is_said(
    acme: Console, operator: Visitor, fields: dict[str, str], told: str
) -> None:
    assert told in said(operator.send(NEW, step="preview", cluster="c1", **fields))
    assert asked_for(acme) == []


def test_asking_again_begins_with_what_was_asked(database: Database, operator: Visitor) -> None:
    ask(database, "p1", target_brokers=(1, 2, 3, 9), replication_factors={"orders": 3}, excluded_topics=("a", "b"))
    page = operator.get(f"{NEW}?like=p1")
    assert values(page) == {"target_brokers": "1-3, 9", "no_leaders": "", "replication_factor": "orders=3"}
    assert '<option value="c1" selected>c1 (offline)</option>' in page.text
    assert "\na\nb</textarea>" in page.text
    note = "1 other plan for c1 is being computed."
    assert note in said(operator.preview(NEW, cluster="c1"))
    assert note not in said(operator.preview(NEW, cluster="c2"))
    for unknown in ("p9", "%00"):
        assert operator.get(f"{NEW}?like={unknown}").status_code == 404


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_asks_for_no_plan(acme: Console, kind: str) -> None:
    who = visitor(acme, kind)
    assert who.get(NEW).status_code == 403
    assert who.send(NEW, step="confirm", once="x" * 20, **FULL).status_code == 403
    assert asked_for(acme) == []


def test_another_sites_form_is_not_taken(acme: Console, operator: Visitor) -> None:
    answer = operator.client.post(NEW, data={**FULL, "step": "confirm", "once": "x" * 20, "key": "0" * 64})
    assert answer.status_code == 403
    assert asked_for(acme) == []


@pytest.mark.parametrize(
    ("text", "ids"), [("", ()), (" 3 ", (3,)), ("1,2, 5 - 8", (1, 2, 5, 6, 7, 8)), ("7\n9", (7, 9))]
)
def test_ids_are_read_and_shown_in_runs(text: str, ids: tuple[int, ...]) -> None:
    assert broker_ids(text, "/x") == ids
    assert broker_ids(id_ranges(ids), "/x") == ids


def test_ten_thousand_ids_are_the_most() -> None:
    assert len(broker_ids("1-10000", "/x")) == 10_000
    with pytest.raises(ValueInvalid):
        broker_ids("1-9999 20000 20001", "/x")
