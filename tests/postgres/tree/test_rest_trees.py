"""`/trees/main`, its distributors and targets, as promised to clients."""

from __future__ import annotations

from typing import Any

import pytest

from backend import deciders
from backend.domain.tree.primary_move import RecordPrimaryMoved
from tests.nightly import some_now
from tests.support.api.rest import NOBODY_LISTENS, TOKEN, TREE, Rest, problem
from tests.support.api.streams import PROD, worker_records

C1, C2, C3 = ({"cluster": name} for name in ("c1", "c2", "c3"))


def test_a_tree_is_set_read_and_set_again_without_an_event(rest: Rest) -> None:
    rest.add_clusters("c1", "c2", "c3")
    problem(rest("GET", "/trees/main"), 404, "not-found")
    first = rest("PUT", "/trees/main", TREE)
    assert first.status_code == 201
    assert first.headers["location"] == "/api/v1/trees/main"
    head = rest.head()
    assert first.json() == {
        "name": "main",
        "root": TREE,
        "primary_cluster": "c1",
        "primary_move": None,
        "coverage": {"proven": True, "pairs": 6},
        "position": head,
    }
    read = rest("GET", "/trees/main")
    assert (read.json(), read.headers["etag"]) == (first.json(), first.headers["etag"])
    same = rest("PUT", "/trees/main", TREE, If_Match=first.headers["etag"])
    assert (same.status_code, same.json(), rest.head()) == (200, first.json(), head)


def test_the_primary_is_chosen_or_stays(rest: Rest) -> None:
    rest.add_clusters("c1", "c2", "c3")
    assert rest("PUT", "/trees/main?primary=c2", TREE).json()["primary_cluster"] == "c2"
    smaller = {"level": 1, "children": [C3, C2]}
    assert rest("PUT", "/trees/main", smaller).json()["primary_cluster"] == "c2"
    problem(rest("PUT", "/trees/main?primary=c1", smaller), 422, "value-invalid")


@pytest.mark.parametrize(
    ("root", "pointer"),
    [
        ({"level": 2, "children": [C1]}, "/children"),
        ({"level": 2, "children": [C1, C2, C3]}, "/children"),
        ({"level": 2, "children": [C1, C1]}, "/children/1/cluster"),
        ({"level": 2, "children": [C1, {"level": 2, "children": [C2, C3]}]}, "/children/1/level"),
        ({"level": 0, "children": [C1, C2]}, "/level"),
        ({"level": 32, "children": [C1, C2]}, "/level"),
        ({"level": "2", "children": [C1, C2]}, "/level"),
        ({"level": True, "children": [C1, C2]}, "/level"),
        ({"level": 2.0, "children": [C1, C2]}, "/level"),
        ({"level": None, "children": [C1, C2]}, "/level"),
        ({"level": 1, "children": [C1, {"cluster": "nowhere"}]}, "/children/1/cluster"),
        ({"level": 1, "children": [C1, {"cluster": ["c2"]}]}, "/children/1/cluster"),
        ({"level": 1, "children": [C1, {"cluster": "\ud800"}]}, "/children/1/cluster"),
        ({"level": 1, "cluster": "c1", "children": [C1, C2]}, ""),
        ({"level": 1, "children": [C1, C2], "more": 1}, ""),
        ([1, 2], ""),
        ("c1", ""),
        (None, ""),
        ({}, "/level"),
    ],
)
def test_what_is_no_tree_is_refused_at_its_place(settled: Rest, root: Any, pointer: str) -> None:
    before = settled("GET", "/trees/main").json()
    answer = (
        settled("PUT", "/trees/main", root)
        if root is not None
        else settled.client.put(
            "/api/v1/trees/main", content=b"null", headers={"Authorization": f"Bearer {TOKEN}"}
        )
    )
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert settled("GET", "/trees/main").json() == before


def test_a_tree_as_deep_as_a_body_can_be_is_refused(settled: Rest) -> None:
    root: Any = C1
    for _ in range(400):
        root = {"level": 1, "children": [root, C2]}
    problem(settled("PUT", "/trees/main", root), 422, "tree-invalid")


@some_now("tag", ['"9"', "*"], now=(0,))
def test_if_match_on_a_tree_that_does_not_exist_is_412(rest: Rest, tag: str) -> None:
    rest.add_clusters("c1", "c2", "c3")
    problem(rest("PUT", "/trees/main", TREE, If_Match=tag), 412, "stale-version")


def test_a_stale_tag_is_412_and_the_tree_stays(grown: Rest) -> None:
    tag = grown("GET", "/trees/main").headers["etag"]
    smaller = {"level": 1, "children": [C1, C2]}
    assert grown("PUT", "/trees/main", smaller, If_Match=tag).status_code == 200
    problem(grown("PUT", "/trees/main", TREE, If_Match=tag), 412, "stale-version")
    assert grown("GET", "/trees/main").json()["root"] == smaller


def test_distributors_are_a_bare_list_with_masks_and_targets(settled: Rest) -> None:
    rows = settled("GET", "/trees/main/distributors").json()
    assert [(row["cluster"], row["level"], row["target"]) for row in rows] == [
        ("c1", 2, "c2"),
        ("c2", 1, "c3"),
        ("c2", 2, "c1"),
        ("c3", 1, "c2"),
        ("c3", 2, "c1"),
    ]
    assert (rows[0]["mask"], rows[0]["flag"], rows[0]["allowed_targets"]) == ("0011", "0010", ["c2", "c3"])
    assert all(row["state"] for row in rows)
    past = settled("GET", f"/trees/main/distributors?at={settled.head()}").json()
    observed = ("state", "reason", "lag_records", "records_per_second", "fencing_epoch", "holder")
    assert all(row[name] is None for row in past for name in observed)


def test_a_target_is_switched_and_the_operation_can_be_followed(grown: Rest) -> None:
    answer = grown("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    assert answer.status_code == 202
    body = answer.json()
    operation = body.pop("operation")
    assert body == {"cluster": "c1", "level": 2, "target": "c3", "previous": "c2"}
    assert answer.headers["location"] == f"/api/v1/operations/{operation}"
    followed = grown("GET", f"/operations/{operation}").json()
    assert (followed["id"], followed["state"]) == (operation, "running")
    assert set(followed) == {"id", "state", "progress", "result", "problem"}
    last = grown("GET", f"/events?after={grown.head() - 1}").json()["items"][0]
    assert (last["name"], last["stream"]) == ("DistributorTargetSwitched", "tree-main")
    head = grown.head()
    same = grown("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    assert (same.status_code, grown.head()) == (200, head)
    assert same.headers["etag"] == grown("GET", "/trees/main").headers["etag"]


def test_a_target_outside_the_sibling_subtree_is_422_with_the_allowed_leaves(settled: Rest) -> None:
    for target in ("c1", "nowhere", ""):
        answer = settled("PUT", "/trees/main/targets/c1/2", {"target": target})
        document = problem(answer, 422, "target-not-allowed")
        assert "c2" in document["detail"]
        assert "c3" in document["detail"]
        assert document["errors"][0]["pointer"] == "/target"


@pytest.mark.parametrize("path", ["c1/1", "c1/3", "c9/2", "c1/x", "c1/-2", "c1/99999999", "c1/%D9%A2"])
def test_no_such_distributor_is_404(settled: Rest, path: str) -> None:
    problem(settled("PUT", f"/trees/main/targets/{path}", {"target": "c2"}), 404, "not-found")


@pytest.mark.parametrize("body", [{}, {"target": None}, {"target": 2}, {"target": "c3", "level": 2}])
def test_a_bad_target_body_is_422(settled: Rest, body: dict[str, Any]) -> None:
    problem(settled("PUT", "/trees/main/targets/c1/2", body), 422, "invalid")


def test_dry_runs_of_tree_and_target_change_nothing(settled: Rest) -> None:
    head = settled.head()
    smaller = {"level": 1, "children": [C1, C2]}
    assert settled("PUT", "/trees/main?dry_run=true", smaller).json()["root"] == smaller
    answer = settled("PUT", "/trees/main/targets/c1/2?dry_run=true", {"target": "c3"})
    assert (answer.status_code, answer.json()["previous"], answer.json()["operation"]) == (200, "c2", None)
    problem(settled("PUT", "/trees/main?dry_run=true", C1 | {"level": 1}), 422, "tree-invalid")
    assert settled.head() == head


def test_an_unknown_operation_is_404(settled: Rest) -> None:
    for identity in ("nothing", "target-switch-1", "target-switch-99", "%00"):
        problem(settled("GET", f"/operations/{identity}"), 404, "not-found")


def test_earlier_positions_show_the_tree_and_targets_of_then(grown: Rest) -> None:
    first = grown.head()
    grown("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    smaller = {"level": 1, "children": [C1, C2]}
    grown("PUT", "/trees/main", smaller)
    then = grown("GET", f"/trees/main?at={first}").json()
    assert (then["root"], then["position"]) == (TREE, first)

    def targets(at: int) -> dict[tuple[str, int], str]:
        rows = grown("GET", f"/trees/main/distributors?at={at}").json()
        return {(row["cluster"], row["level"]): row["target"] for row in rows}

    assert targets(first)["c1", 2] == "c2"
    assert targets(first + 1)["c1", 2] == "c3"
    assert targets(first + 2) == {("c1", 1): "c2", ("c2", 1): "c1"}
    assert grown("GET", f"/trees/main/distributors?at={first - 1}").json() == []
    problem(grown("GET", f"/trees/main?at={first - 1}"), 404, "not-found")
    problem(grown("GET", f"/trees/main?at={grown.head() + 1}"), 422, "value-invalid")


def test_a_cluster_on_which_streams_would_meet_does_not_join(tenant: Rest) -> None:
    environment = PROD
    tenant("POST", "/tenants/acme/instances/retail/environments", {"name": "dev"})
    # Added while there is only one stream, so that the format clashes with nothing yet.
    tenant("POST", f"{environment}/streams", {"name": "orders"})
    body = {"name": "c4", "bootstrap_servers": NOBODY_LISTENS, "accept_offline": True}
    assert tenant("POST", "/clusters", {**body, "topic_format": "{tenant}-{topic}"}).status_code == 201
    tenant("POST", f"{environment.replace('prod', 'dev')}/streams", {"name": "orders"})
    larger = {"level": 3, "children": [TREE, {"cluster": "c4"}]}
    head = tenant.head()
    document = problem(tenant("PUT", "/trees/main", larger), 409, "technical-name-taken")
    assert document["errors"][0]["pointer"] == "/children/1/cluster"
    assert "acme/retail/dev/orders" in document["detail"]
    assert tenant.head() == head


def test_a_move_of_the_primary_is_long_work_that_can_be_overtaken_and_ended(tenant: Rest) -> None:
    begun = tenant("PUT", "/trees/main/primary", {"cluster": "c2"})
    assert begun.status_code == 202, begun.text
    assert begun.json() | {"operation": ""} == {
        "cluster": "c2",
        "previous": "c1",
        "take_over": False,
        "operation": "",
    }
    operation = begun.headers["location"].removeprefix("/api/v1")
    assert tenant("GET", operation).json()["state"] == "running"
    tree = tenant("GET", "/trees/main").json()
    assert (tree["primary_cluster"], tree["primary_move"]) == ("c1", {"cluster": "c2", "take_over": False})
    assert tenant("PUT", "/trees/main/primary", {"cluster": "c2"}).status_code == 200
    assert tenant("PUT", "/trees/main/primary", {"cluster": "c2", "take_over": True}).status_code == 202
    assert tenant("PUT", "/trees/main/primary", {"cluster": "c1"}).status_code == 200
    assert tenant("GET", "/trees/main").json()["primary_move"] is None
    failed = tenant("GET", operation).json()
    assert (failed["state"], failed["problem"]["type"]) == ("failed", "urn:treeline:overtaken")
    problem(tenant("PUT", "/trees/main/primary", {"cluster": "c9"}), 422, "value-invalid")
    problem(tenant("PUT", "/trees/main?primary=c2", TREE), 422, "value-invalid")


def test_a_primary_that_has_moved_is_the_end_of_its_operation(tenant: Rest) -> None:
    operation = tenant("PUT", "/trees/main/primary", {"cluster": "c3"}).headers["location"].removeprefix("/api/v1")
    moved = RecordPrimaryMoved(cluster="c3", previous="c1", skipped_ids=0)
    worker_records(tenant, moved, deciders.TREE, "tree-main")
    done = tenant("GET", operation).json()
    assert (done["state"], done["result"]["cluster"]) == ("succeeded", "c3")
    tree = tenant("GET", "/trees/main").json()
    assert (tree["primary_cluster"], tree["primary_move"]) == ("c3", None)
    worker_records(tenant, moved, deciders.TREE, "tree-main")
    assert tenant("GET", "/trees/main").json()["position"] == tree["position"]
