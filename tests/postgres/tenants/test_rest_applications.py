"""Applications and their grants; and that nobody learns of other tenants' things by asking."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.domain.access.access_steps import WantedAccess
from backend.domain.names.names import ApplicationName
from backend.domain.tenants.application_records import RecordAccessApplied, RecordAccessFailed, RecordAccessRemoved
from backend.queries.tenants.applications import list_applications
from tests.support.api.applications import (
    APPLICATIONS,
    BILLING,
    CLUSTERS,
    HOME,
    ITEMS,
    ORDERS,
    THERE,
    decide,
    declare,
    globex_owner,
    records,
    states,
)
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.database.postgres import Database
from workers.access import wanted_access


def test_an_application_shows_what_it_may_and_what_is_due_everywhere(both: Rest) -> None:
    made = both("POST", APPLICATIONS, {"name": "billing", "produces": ["orders"], "request_percentage": 50})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/api/v1{APPLICATIONS}/billing"
    due = [
        "topic acme-retail-prod-orders: describe",
        "topic acme-retail-prod-orders: write",
        "transactional-id acme/retail/prod/billing/*: describe",
        "transactional-id acme/retail/prod/billing/*: write",
    ]
    assert made.json() == {
        "name": "billing",
        "application": BILLING,
        "tenant": "acme",
        "instance": "retail",
        "environment": "prod",
        "principal": BILLING,
        "groups": ["billing"],
        "produces": [{"stream": ORDERS, "state": "granted", "reason": None}],
        "consumes": [],
        "producer_bytes_per_second": None,
        "consumer_bytes_per_second": None,
        "request_percentage": 50,
        "credentials": None,
        "technical_groups": {each: ["acme-retail-prod-billing"] for each in CLUSTERS},
        "transactional_id_prefix": "acme/retail/prod/billing/",
        "applied": dict.fromkeys(CLUSTERS, "pending"),
        "failures": {},
        "leaving": {},
        "parts": {each: {} for each in CLUSTERS},
        "acls": dict.fromkeys(CLUSTERS, due),
        "position": both.head(),
    }
    read = both("GET", f"{APPLICATIONS}/billing")
    assert (read.json(), read.headers["etag"]) == (made.json(), made.headers["etag"])
    assert both("GET", APPLICATIONS).json() == {"items": [made.json()], "next_cursor": None}
    problem(both("POST", APPLICATIONS, {"name": "billing"}), 409, "already-exists")
    problem(both("GET", f"{APPLICATIONS}/nothing"), 404, "not-found")
    problem(both("PATCH", f"{APPLICATIONS}/nothing", {}), 404, "not-found")
    problem(both("DELETE", f"{APPLICATIONS}/nothing"), 404, "not-found")


def test_a_dry_run_is_the_plan_and_changes_nothing(both: Rest) -> None:
    head = both.head()
    plan = both("POST", f"{APPLICATIONS}?dry_run=true", {"name": "billing", "consumes": ["orders"]}).json()
    assert "topic acme-retail-prod-orders: read" in plan["acls"]["c1"]
    assert not any("transactional" in acl for acl in plan["acls"]["c1"])
    assert both.head() == head
    declare(both)
    plan = both("PATCH", f"{APPLICATIONS}/billing?dry_run=true", {"produces": ["orders"], "groups": []}).json()
    assert not any("group" in acl for acl in plan["acls"]["c1"])
    assert both("GET", f"{APPLICATIONS}/billing").json()["groups"] == ["billing"]
    assert both("POST", f"{APPLICATIONS}/billing/credentials?dry_run=true").json()["password"] is None
    assert both("GET", f"{APPLICATIONS}/billing").json()["credentials"] is None


def test_a_change_replaces_lists_and_takes_quotas_away(both: Rest) -> None:
    declare(both, produces=["orders"], groups=["a", "b"], request_percentage=50, consumer_bytes_per_second=7)
    read = both("GET", f"{APPLICATIONS}/billing")
    changes = {"produces": [], "consumes": [ITEMS, "orders"], "request_percentage": None, "groups": None}
    changed = both("PATCH", f"{APPLICATIONS}/billing", changes, If_Match=read.headers["etag"])
    assert changed.status_code == 200, changed.text
    shown = changed.json()
    assert shown["produces"] == []
    assert states(shown, "consumes") == {ORDERS: "granted", ITEMS: "granted"}
    assert (shown["request_percentage"], shown["consumer_bytes_per_second"]) == (None, 7)
    assert shown["groups"] == ["a", "b"]
    stale = both("PATCH", f"{APPLICATIONS}/billing", {"produces": ["orders"]}, If_Match=read.headers["etag"])
    problem(stale, 412, "stale-version")
    head = both.head()
    assert both("PATCH", f"{APPLICATIONS}/billing", changes).json() == shown
    assert both.head() == head
    then = both("GET", f"{APPLICATIONS}/billing?at={read.json()['position']}").json()
    assert then == read.json()


def test_owners_decide_and_what_waits_opens_nothing(both: Rest) -> None:
    ada, bob, gil = new_user(both, "ada", acme="member"), new_user(both, "bob", acme="owner"), globex_owner(both)
    shown = declare(ada, produces=["orders"], consumes=[ITEMS])
    assert states(shown, "produces") | states(shown, "consumes") == {
        ORDERS: "requested",
        ITEMS: "requested",
    }
    assert not any("topic" in acl for acl in shown["acls"]["c1"])
    problem(decide(ada, "grant", ORDERS, "produce"), 403, "not-allowed")
    granted = decide(bob, "grant", ORDERS, "produce")
    assert granted.status_code == 200, granted.text
    position = granted.json().pop("position")
    assert granted.json() == {
        "application": BILLING,
        "stream": ORDERS,
        "operation": "produce",
        "state": "granted",
        "requested_by": "ada",
        "decided_by": "bob",
        "reason": None,
        "position": position,
    }
    # globex hears of the application because it asks, and decides what is its own.
    problem(decide(bob, "grant"), 404, "not-found")
    assert [each["application"] for each in gil("GET", "/tenants/globex/grants").json()["items"]] == [BILLING]
    assert gil("GET", "/tenants/globex/grants?state=granted").json()["items"] == []
    assert decide(gil, "refuse", reason="ask sales").json()["state"] == "refused"
    assert ada("GET", f"{APPLICATIONS}/billing").json()["consumes"] == [
        {"stream": ITEMS, "state": "refused", "reason": "ask sales"}
    ]
    assert decide(gil, "grant").json()["state"] == "granted"
    now = ada("GET", f"{APPLICATIONS}/billing").json()
    assert "topic globex-retail-prod-items: read" in now["acls"]["c3"]
    assert decide(gil, "withdraw", reason="over").json()["state"] == "withdrawn"
    now = ada("GET", f"{APPLICATIONS}/billing").json()
    assert now["consumes"] == [{"stream": ITEMS, "state": "withdrawn", "reason": "over"}]
    assert not any("globex" in acl for acl in now["acls"]["c3"])
    problem(decide(gil, "withdraw", stream=ITEMS + "s"), 404, "not-found")
    problem(decide(gil, "perhaps"), 422, "value-invalid")
    ada("PATCH", f"{APPLICATIONS}/billing", {"consumes": []})
    assert gil("GET", "/tenants/globex/grants").json()["items"] == []


@pytest.mark.parametrize("who", ["member", "owner"])
def test_nobody_finds_out_by_asking_what_another_tenant_has(both: Rest, who: str) -> None:
    ada = new_user(both, "ada", acme=who)

    def ask(name: str, stream: str) -> tuple[int, str]:
        made = ada("POST", APPLICATIONS, {"name": name, "consumes": [stream], "groups": []})
        changed = ada("PATCH", f"{APPLICATIONS}/{name}", {"produces": [stream]})
        text = (made.text + changed.text).replace(stream, "STREAM").replace(name, "NAME")
        positions = (made.json()["position"], changed.json()["position"])
        for position in positions:
            text = text.replace(f'"position":{position}', "")
        return made.status_code, text

    answers = {ask("a1", ITEMS), ask("a2", "globex/retail/prod/nothing"), ask("a3", "nobody/x/y/z")}
    assert len(answers) == 1
    assert answers.pop()[0] == 201
    # One's own must be there.
    document = problem(
        ada("POST", APPLICATIONS, {"name": "b", "consumes": ["orders", "ordesr"]}), 422, "value-invalid"
    )
    assert [each["pointer"] for each in document["errors"]] == ["/consumes/1"]
    # Neither can be told whether another tenant has an application that asks nothing.
    gil = globex_owner(both)
    said = {
        decide(gil, "grant", application=f"acme/retail/prod/{name}", stream="globex/retail/prod/x").text.replace(
            name, "NAME"
        )
        for name in ("a1", "nothing")
    }
    assert len(said) == 1
    assert "not-found" in said.pop()


def test_what_one_may_read_must_be_there(both: Rest) -> None:
    document = problem(
        both("POST", APPLICATIONS, {"name": "b", "produces": ["globex/retail/prod/nothing"]}), 422, "value-invalid"
    )
    assert document["errors"] == [
        {"pointer": "/produces/0", "detail": "there is no stream globex/retail/prod/nothing"}
    ]


def test_a_stream_that_is_deleted_is_open_to_nobody_until_it_is_declared_again(both: Rest) -> None:
    declare(both, produces=["orders"])
    assert both("DELETE", f"{HOME}/streams/orders?confirm=acme/retail/prod/orders").status_code == 204
    shown = both("GET", f"{APPLICATIONS}/billing").json()
    assert states(shown, "produces") == {ORDERS: "granted"}
    assert not any("topic" in acl for acl in shown["acls"]["c1"])
    assert both("PATCH", f"{APPLICATIONS}/billing", {"produces": ["orders"]}).status_code == 200
    assert both("POST", f"{HOME}/streams", {"name": "orders"}).status_code == 201
    shown = both("GET", f"{APPLICATIONS}/billing").json()
    assert "topic acme-retail-prod-orders: write" in shown["acls"]["c1"]


def test_what_workers_record_is_shown_until_something_else_is_due(both: Rest) -> None:
    declare(both, produces=["orders"])
    parts = {"acls": "applied", "credentials": "none issued"}
    records(both, RecordAccessApplied(cluster="c1", revision=2, parts=parts))
    records(both, RecordAccessApplied(cluster="c2", revision=1, parts=parts))
    records(both, RecordAccessFailed(cluster="c3", reason="silent"))
    shown = both("GET", f"{APPLICATIONS}/billing").json()
    assert shown["applied"] == {"c1": "applied", "c2": "pending", "c3": "failed"}
    assert shown["failures"] == {"c3": "silent"}
    assert shown["parts"] == {"c1": parts, "c2": {}, "c3": {}}
    both("POST", f"{APPLICATIONS}/billing/credentials")
    shown = both("GET", f"{APPLICATIONS}/billing").json()
    assert (shown["applied"], shown["failures"]) == (dict.fromkeys(CLUSTERS, "pending"), {})


def test_a_deleted_application_is_gone_and_kept_until_clusters_are_clear(both: Rest, database: Database) -> None:
    declare(both, consumes=["orders"])
    assert both("DELETE", f"{APPLICATIONS}/billing").status_code == 204
    problem(both("GET", f"{APPLICATIONS}/billing"), 404, "not-found")
    assert both("GET", APPLICATIONS).json()["items"] == []
    assert both("GET", "/tenants/acme/grants").json()["items"] == []
    for number, cluster in enumerate(CLUSTERS):
        with database.engine.connect() as connection:
            [row] = list_applications(connection, deleted=True)
            assert list_applications(connection) == []
        assert (row.deleted, row.produces, row.consumes, row.credentials) == (True, (), (), None)
        assert set(row.applied) == set(CLUSTERS[number:])
        assert {each.state for each in row.applied.values()} == {"pending"}
        records(both, RecordAccessRemoved(cluster=cluster))
    with database.engine.connect() as connection:
        assert list_applications(connection, deleted=True) == []
    assert states(declare(both, consumes=["orders"]), "consumes") == {ORDERS: "granted"}


def test_what_a_cluster_that_left_the_tree_may_have_is_leaving_until_it_is_removed(
    both: Rest, database: Database
) -> None:
    declare(both, produces=["orders"])
    done = RecordAccessApplied(cluster="c3", revision=2, parts={"acls": "applied"})
    records(both, done)
    root = both("GET", "/trees/main").json()["root"]
    smaller = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    assert both("PUT", "/trees/main", smaller).status_code == 200

    def shown(what: str) -> Any:
        return both("GET", f"{APPLICATIONS}/billing").json()[what]

    def wanted() -> list[WantedAccess]:
        with database.engine.connect() as connection:
            return list(wanted_access.read(connection).get("c3", ()))

    assert (set(shown("applied")), shown("leaving")) == ({"c1", "c2"}, {"c3": None})
    parts = {"acls": "applied"}
    assert wanted() == [
        WantedAccess(principal=BILLING, cluster="c3", revision=0, gone=True, left=True, parts=parts)
    ]
    records(both, RecordAccessFailed(cluster="c3", reason="silent"))
    assert shown("leaving") == {"c3": "silent"}
    # Another password is not for a cluster that is to have none; and why it has something still, is asked anew.
    both("POST", f"{APPLICATIONS}/billing/credentials")
    assert (shown("leaving"), wanted()[0].credentials) == ({"c3": None}, None)
    records(both, RecordAccessRemoved(cluster="c3", left=True))
    assert (shown("leaving"), wanted()) == ({}, [])
    # A worker that had begun before the tree was another one.
    records(both, replace(done, revision=3))
    assert shown("leaving") == {"c3": None}
    assert both("PUT", "/trees/main", root).status_code == 200
    assert (shown("leaving"), shown("applied")["c3"]) == ({}, "applied")


def test_a_cluster_that_was_removed_and_added_again_is_pending(both: Rest, database: Database) -> None:
    declare(both)
    done = RecordAccessApplied(cluster="c3", revision=1, parts={})
    records(both, done)
    root = both("GET", "/trees/main").json()["root"]
    smaller = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    assert both("PUT", "/trees/main", smaller).status_code == 200
    assert "c3" not in both("GET", f"{APPLICATIONS}/billing").json()["applied"]
    declare(both, "audit")
    records(both, done, "acme/retail/prod/audit")
    assert both("DELETE", "/clusters/c3").status_code == 204
    both("DELETE", f"{APPLICATIONS}/audit")
    with database.engine.connect() as connection:
        assert set(list_applications(connection, deleted=True)[0].applied) == {"c1", "c2"}
    both.add_clusters("c3")
    assert both("PUT", "/trees/main", root).status_code == 200
    records(both, done)
    assert both("GET", f"{APPLICATIONS}/billing").json()["applied"]["c3"] == "pending"
    records(both, replace(done, anew=True))
    assert both("GET", f"{APPLICATIONS}/billing").json()["applied"]["c3"] == "applied"


def test_the_workers_row_has_technical_names(both: Rest, database: Database) -> None:
    declare(both, produces=["orders"], consumes=[ITEMS], groups=["g2", "g1"])
    with database.engine.connect() as connection:
        [row] = list_applications(connection)
    assert row.principal == BILLING
    assert (row.produces, row.consumes) == ((ORDERS,), (ITEMS,))
    topics = {ORDERS: "acme-retail-prod-orders", ITEMS: "globex-retail-prod-items"}
    assert row.topics == dict.fromkeys(CLUSTERS, topics)
    assert row.technical_groups == dict.fromkeys(CLUSTERS, ("acme-retail-prod-g1", "acme-retail-prod-g2"))
    assert row.revision == 3
    assert row.full_name == ApplicationName("acme", "retail", "prod", "billing")


def test_no_two_applications_share_a_group_on_a_cluster(both: Rest) -> None:
    declare(both, groups=["shared"])
    refused = problem(
        both("POST", APPLICATIONS, {"name": "audit", "groups": ["shared"]}), 409, "technical-name-taken"
    )
    assert BILLING in refused["detail"]
    assert refused["errors"][0]["pointer"] == "/groups/0"
    declare(both, "audit")
    problem(both("PATCH", f"{APPLICATIONS}/audit", {"groups": ["a", "shared"]}), 409, "technical-name-taken")
    assert both("PATCH", f"{APPLICATIONS}/billing", {"groups": ["shared", "more"]}).status_code == 200
    assert both("DELETE", f"{APPLICATIONS}/billing").status_code == 204
    assert both("PATCH", f"{APPLICATIONS}/audit", {"groups": ["shared"]}).status_code == 200


def test_formats_that_leave_parts_out_let_groups_meet_and_nobody_hears_whose(both: Rest) -> None:
    declare(both, groups=["g"])
    problem(both("PATCH", "/clusters/c1", {"group_format": "{group}"}), 409, "state-conflict")
    both.add_clusters("c4", group_format="{group}")
    root = {"level": 3, "children": [{"cluster": "c4"}, both("GET", "/trees/main").json()["root"]]}
    assert both("PUT", "/trees/main", root).status_code == 200
    gil = globex_owner(both)
    refused = problem(
        gil("POST", f"{THERE}/applications", {"name": "x", "groups": ["g"]}), 409, "technical-name-taken"
    )
    assert "acme" not in str(refused)
    assert "an application of another tenant" in refused["detail"]


def test_a_cluster_on_which_groups_would_meet_cannot_join(both: Rest) -> None:
    declare(both, groups=["g"])
    assert both("POST", f"{THERE}/applications", {"name": "x", "groups": ["g"]}).status_code == 201
    both.add_clusters("c4", group_format="{group}")
    root = {"level": 3, "children": [{"cluster": "c4"}, both("GET", "/trees/main").json()["root"]]}
    refused = problem(both("PUT", "/trees/main", root), 409, "technical-name-taken")
    assert refused["errors"][0]["pointer"] == "/children/0/cluster"


def test_events_of_applications_are_for_their_own_tenant(both: Rest) -> None:
    ada, gil = new_user(both, "ada", acme="member"), globex_owner(both)
    declare(both, consumes=[ITEMS])
    mine = {item["stream"] for item in ada("GET", "/events?limit=1000").json()["items"]}
    assert mine == {"tenant-acme", f"application-{BILLING}"}
    assert {item["stream"] for item in gil("GET", "/events?limit=1000").json()["items"]} == {"tenant-globex"}
    only = ada("GET", f"/events?stream=application-{BILLING}").json()["items"]
    assert [item["name"] for item in only] == ["ApplicationDeclared", "AccessRequested", "AccessGranted"]


def test_events_of_a_tenant_whose_name_begins_alike_are_not_shown(both: Rest) -> None:
    both("POST", "/tenants", {"name": "acme-2"})
    both("POST", "/tenants/acme-2/instances", {"name": "retail"})
    both("POST", "/tenants/acme-2/instances/retail/environments", {"name": "prod"})
    theirs = {"name": "billing", "groups": []}
    assert both("POST", APPLICATIONS.replace("acme", "acme-2"), theirs).status_code == 201
    ada = new_user(both, "ada", acme="member")
    declare(both)
    for query in ("", "&newest=true", "&name=ApplicationDeclared", "&stream=application-acme"):
        shown = {item["stream"] for item in ada("GET", f"/events?limit=1000{query}").json()["items"]}
        assert shown - {"tenant-acme"} == {f"application-{BILLING}"}, query


def test_lists_have_pages(both: Rest) -> None:
    for name in ("a", "b", "c"):
        declare(both, name, consumes=["orders"], groups=[])
    for path, names in ((APPLICATIONS, "application"), ("/tenants/acme/grants", "application")):
        found, cursor = [], ""
        while cursor is not None:
            page = both("GET", f"{path}?limit=2{cursor and f'&cursor={cursor}'}").json()
            found += [item[names] for item in page["items"]]
            cursor = page["next_cursor"]
        assert found == [f"acme/retail/prod/{name}" for name in "abc"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "x", "produces": ["a\u0000b"]}, "/produces"),
        ({"name": "x", "produces": "orders"}, "/produces"),
        ({"name": "x", "groups": [7]}, "/groups/0"),
        ({"name": "x", "surprise": 1}, "/surprise"),
        ({"name": "x", "request_percentage": 1.5}, "/request_percentage"),
        ({"name": "x", "consumes": [""]}, "/consumes/0"),
    ],
)
def test_bad_input_is_refused_at_its_place(both: Rest, body: dict[str, Any], pointer: str) -> None:
    answer = both("POST", APPLICATIONS, body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
