"""GET /groups, on a database filled as workers fill it, and the commands that show it."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from backend.queries.offsets import group_store
from tests.postgres.switch.test_discovery import MOVED, start, switched
from tests.support.api.callers import new_user
from tests.support.api.observed_groups import AT, ORDERS, member, observed, partition
from tests.support.api.rest import Rest, problem
from tests.support.api.shell import shell_of

ITEMS = "globex/shop/prod/items"


def store(database, *rows, cluster: str = "c1", **fields) -> None:
    with database.engine.begin() as connection:
        group_store.store_groups(connection, cluster, rows, AT, **fields)


@pytest.fixture
def seen(tenant: Rest, database) -> Rest:
    checkout = observed("checkout", partition(0, 40, 100, member="m-7", time_lag_ms=9_000), partition(1, 7, 7))
    audit = observed("audit", partition(0, 0, 1_204), members=[], state="Empty")
    stranger = observed("stranger", partition(0, 1, 1, None), place=None, group=None, members=[], state="Empty")
    store(database, checkout, audit, stranger)
    store(database, observed("audit", partition(0, 0, 0), cluster="c2"), cluster="c2", truncated=True)
    return tenant


def test_a_group_with_its_members_partitions_and_diagnosis(seen: Rest) -> None:
    (item,) = seen("GET", "/groups?group=checkout").json()["items"]
    assert (item["technical_name"], item["cluster"], item["state"]) == (
        "acme-retail-prod-checkout",
        "c1",
        "Stable",
    )
    assert (item["tenant"], item["instance"], item["environment"]) == ("acme", "retail", "prod")
    assert item["members"] == [
        {"member_id": "m-7", "client_id": "client-7", "host": "10.1.2.7", "instance_id": None, "partitions": 1}
    ]
    first = item["partitions"][0]
    keys = ("stream", "partition", "committed_offset", "end_offset", "lag_records", "member")
    assert [first[key] for key in keys] == [ORDERS, 0, 40, 100, 60, "m-7"]
    assert (item["lag_records"], item["state"], item["protocol"]) == (60, "Stable", "classic")
    assert item["diagnosis"]["code"] == "in-time" and "9 s behind" in item["diagnosis"]["text"]


def test_filters_pages_and_observations(seen: Rest, database) -> None:
    whole = seen("GET", "/groups").json()
    assert [(row["cluster"], row["group"]) for row in whole["items"]] == [
        ("c1", "audit"), ("c1", "checkout"), ("c1", None), ("c2", "audit"),
    ]  # fmt: skip
    found, path = [], "/groups?limit=1"
    while path:
        page = seen("GET", path).json()
        found += page["items"]
        path = page["next_cursor"] and f"/groups?limit=1&cursor={page['next_cursor']}"
    assert found == whole["items"]
    (row,) = seen("GET", "/groups?diagnosis=no-members").json()["items"]
    assert row["group"] == "audit" and "1,204 records wait" in row["diagnosis"]["text"]
    assert len(seen("GET", f"/groups?stream={quote(ORDERS)}&cluster=c1").json()["items"]) == 2
    assert [(row["cluster"], row["groups"], row["truncated"]) for row in whole["observations"]] == [
        ("c1", 3, False), ("c2", 1, True), ("c3", None, False),
    ]  # fmt: skip
    with database.engine.begin() as connection:
        group_store.store_failure(connection, "c1", "no broker answers at 127.0.0.1:9")
    (told,) = seen("GET", "/groups?cluster=c1").json()["observations"]
    assert told["reason"] == "no broker answers at 127.0.0.1:9" and told["age_ms"] > 0


def test_names_of_any_length_and_kind_are_found_and_paged(tenant: Rest, database) -> None:
    names = ["Büro #1/ost", "a b", "50% of = it?&", "x" * 249]
    store(database, *(observed(name, partition(), place=None, group=None) for name in names))
    found, path = [], "/groups?limit=1"
    while path:
        page = tenant("GET", path).json()
        found += [row["technical_name"] for row in page["items"]]
        path = page["next_cursor"] and f"/groups?limit=1&cursor={page['next_cursor']}"
    assert sorted(found) == sorted(names)
    for name in names:
        (row,) = tenant("GET", f"/groups?group={quote(name, safe='')}").json()["items"]
        assert row["technical_name"] == name


def test_a_tenant_sees_its_own_groups_and_its_part_of_others(both: Rest, database) -> None:
    shared = observed("shared", partition(0, 0, 5), partition(0, 0, 70, ITEMS), members=[member()])
    theirs = observed("theirs", partition(0, 0, 1, ITEMS), place="globex/shop/prod")
    store(database, shared, theirs, reason="broker 2 did not answer: it is down")
    mia = new_user(both, "mia", globex="member")
    answer = mia("GET", "/groups").json()
    assert [(row["group"], row["lag_records"], len(row["members"])) for row in answer["items"]] == [
        ("shared", 70, 0), ("theirs", 1, 1),
    ]  # fmt: skip
    assert answer["observations"][0]["reason"] is None, "errors of clusters are the estate's"
    assert mia("GET", f"/groups?stream={ORDERS}").json()["items"] == []
    own = new_user(both, "ann", acme="member")("GET", "/groups").json()["items"]
    assert [(row["group"], row["lag_records"]) for row in own] == [("shared", 75)]


def test_a_tenant_learns_of_the_clusters_in_its_trees_only(both: Rest) -> None:
    both.add_clusters("c4")
    mia = new_user(both, "mia", globex="member")
    assert [row["cluster"] for row in mia("GET", "/groups").json()["observations"]] == ["c1", "c2", "c3"]
    assert [row["cluster"] for row in both("GET", "/groups").json()["observations"]] == ["c1", "c2", "c3", "c4"]
    for path in ("/groups", "/offsets"):
        for name in ("c4", "c9"):
            refused = problem(mia("GET", f"{path}?cluster={name}"), 404, "not-found")
            assert refused["detail"] == f"there is no cluster '{name}'"
        assert both("GET", f"{path}?cluster=c4").status_code == mia("GET", f"{path}?cluster=c1").status_code == 200


def test_a_reset_on_a_cluster_of_others_is_one_on_an_unknown_cluster(both: Rest) -> None:
    both.add_clusters("c4")
    owner, stream = new_user(both, "olga", globex="owner"), "globex/retail/prod/items"
    for name in ("c4", "c9"):
        body = {"cluster": name, "stream": stream, "group": "stock", "to": "earliest"}
        refused = problem(owner("POST", "/offsets/reset", body), 404, "not-found")
        assert refused["detail"] == f"there is no cluster '{name}'"
    body = {"cluster": "c4", "stream": stream, "group": "stock", "to": "earliest"}
    assert (
        problem(both("POST", "/offsets/reset", body), 404, "not-found")["detail"] == f"c4 has no topic of {stream}"
    )


def test_refusals(seen: Rest) -> None:
    problem(seen("GET", "/groups?cluster=c9"), 404, "not-found")
    problem(seen("GET", "/groups?cursor=bm90aGluZw=="), 422, "value-invalid")
    problem(seen("GET", "/groups?cursor=NQ=="), 422, "value-invalid")
    refused = problem(seen("GET", "/groups?diagnosis=slow"), 422, "value-invalid")
    assert "known are in-time" in refused["detail"] and refused["errors"][0]["pointer"] == "/diagnosis"
    refused = problem(seen("GET", "/groups?group=" + quote("No\tGroup")), 422, "name-invalid")
    assert "U+0009 at position 3" in refused["detail"]
    assert seen("GET", "/groups?group=nobody").json()["items"] == []


def test_a_switch_that_closes_consumers_pauses_their_groups_on_the_cluster_that_they_leave(seen: Rest) -> None:
    switched(seen, start(), *MOVED[:2])
    assert seen("GET", "/groups?diagnosis=paused-by-switch").json()["items"] == [], "consumers read on"
    switched(seen, MOVED[2])
    items = seen("GET", "/groups?diagnosis=paused-by-switch").json()["items"]
    assert [(row["cluster"], row["group"]) for row in items] == [("c1", "audit"), ("c1", "checkout")]
    assert items[0]["diagnosis"]["text"].startswith("Paused by switch s1: ")
    assert seen("GET", "/groups?diagnosis=no-members").json()["items"] == []
    switched(seen, *MOVED[3:])
    assert seen("GET", "/groups?diagnosis=paused-by-switch").json()["items"] == []


def test_a_switch_of_one_zone_pauses_no_group_of_the_environment(seen: Rest) -> None:
    switched(seen, start(zone="az2"), *MOVED[:3])
    assert seen("GET", "/groups?diagnosis=paused-by-switch").json()["items"] == []
    assert [row["group"] for row in seen("GET", "/groups?diagnosis=no-members").json()["items"]] == ["audit"]


def test_commands(seen: Rest, database, tmp_path) -> None:
    with database.engine.begin() as connection:
        group_store.store_failure(connection, "c1", "no broker answers")
    with shell_of(database.url, tmp_path) as shell:
        every = shell("groups", "list", "--cluster", "c1")
        assert every.exit_code == 0 and "c1 were not observed the last time: no broker answers." in every.stderr
        assert "acme-retail-prod" not in every.stdout and "stranger" in every.stdout
        assert "c2 has more groups than are observed" in shell("groups", "list").stderr
        left = shell.json("groups", "list", "--diagnosis", "no-members", "--stream", ORDERS)["items"]
        assert [(row["cluster"], row["group"]) for row in left] == [("c1", "audit")]
        shown = shell("groups", "show", "acme-retail-prod-checkout").stdout
        heading, *table = shown.splitlines()
        assert heading.startswith(
            "checkout on c1 (acme-retail-prod-checkout, classic, Stable): In time: at most 9 s"
        )
        assert "client-7 on 10.1.2.7" in "\n".join(table) and ORDERS in shown
        assert [row["cluster"] for row in shell.json("groups", "show", "audit")["items"]] == ["c1", "c2"]
        unknown = shell("groups", "show", "nobody", "--cluster", "c2")
        assert unknown.exit_code != 0 and "no group 'nobody' on c2" in unknown.stderr
        refused = shell("groups", "list", "--diagnosis", "slow")
        assert refused.exit_code != 0 and "known are in-time" in refused.stderr
