"""`/clusters` as outsiders rely on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.nightly import some_now
from tests.support.api.rest import NOBODY_LISTENS, Rest, problem
from tests.support.api.streams import PROD, applied, worker_records

FULL = "{tenant}-{instance}-{environment}-{topic}"
NEW: dict[str, Any] = {
    "name": "cluster-6",
    "bootstrap_servers": NOBODY_LISTENS,
    "zone": "az1",
    "topic_format": FULL,
    "group_format": "{tenant}-{instance}-{environment}-{group}",
    "subject_format": FULL,
    "properties": {"sasl.username": "app", "sasl.password": "${env:C6}"},
    "accept_offline": True,
}
SAID = {key: value for key, value in NEW.items() if key not in ("properties", "accept_offline")}


def test_a_cluster_that_is_down_is_added_offline_with_the_reason(rest: Rest, monkeypatch) -> None:
    monkeypatch.setenv("C6", "secret-of-c6")
    answer = rest("POST", "/clusters", NEW)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/clusters/cluster-6"
    body = answer.json()
    assert body | SAID == body
    assert (body["number"], body["state"], body["kafka_cluster_id"]) == (1, "offline", None)
    assert body["reason"]
    assert body["properties"] == {"sasl.username": "app", "sasl.password": "***"}
    again = rest("GET", answer.headers["location"].removeprefix("/api/v1"))
    assert again.json() == body
    assert again.headers["etag"] == answer.headers["etag"] == '"1"'
    assert rest("GET", "/clusters").json() == {"items": [body], "next_cursor": None}
    everything = answer.text + again.text + rest("GET", "/events").text
    assert "secret-of-c6" not in everything


def test_a_cluster_that_does_not_answer_is_refused_and_nothing_changes(rest: Rest) -> None:
    answer = rest("POST", "/clusters", {**NEW, "properties": {}, "accept_offline": False})
    document = problem(answer, 422, "cluster-unreachable")
    assert [error["pointer"] for error in document["errors"]] == ["/bootstrap_servers"]
    assert rest.head() == 0


@pytest.mark.parametrize(
    ("change", "slug", "pointer"),
    [
        ({"name": "a b"}, "name-invalid", "/name"),
        ({"name": "__c"}, "name-invalid", "/name"),
        ({"name": ""}, "name-invalid", "/name"),
        ({"bootstrap_servers": "nowhere"}, "value-invalid", "/bootstrap_servers"),
        ({"bootstrap_servers": ""}, "value-invalid", "/bootstrap_servers"),
        ({"zone": "a/b"}, "name-invalid", "/zone"),
        ({"topic_format": "{tenant}"}, "format-invalid", "/topic_format"),
        ({"topic_format": "{tenant}-{cluster}-{topic}"}, "format-invalid", "/topic_format"),
        ({"group_format": "x"}, "format-invalid", "/group_format"),
        ({"subject_format": "{topic"}, "format-invalid", "/subject_format"),
        ({"properties": {"sasl.password": "plain"}}, "properties-invalid", "/properties/sasl.password"),
        (
            {"properties": {"plugin.library.paths": "x"}},
            "properties-invalid",
            "/properties/plugin.library.paths",
        ),
    ],
)
def test_bad_content_is_422_at_its_place(
    empty_rest: Rest, change: dict[str, Any], slug: str, pointer: str
) -> None:
    document = problem(empty_rest("POST", "/clusters", {**NEW, **change}), 422, slug)
    assert pointer in [error["pointer"] for error in document["errors"]]


def test_a_taken_name_is_409_before_anybody_is_asked(rest: Rest) -> None:
    rest.add_clusters("cluster-6")
    taken = {**NEW, "accept_offline": False, "properties": {}}
    problem(rest("POST", "/clusters", taken), 409, "already-exists")


def test_an_unset_reference_is_named_without_its_value(rest: Rest, monkeypatch) -> None:
    monkeypatch.delenv("C6", raising=False)
    answer = rest("POST", "/clusters", {**NEW, "accept_offline": False})
    refused = problem(answer, 422, "cluster-unreachable")
    assert "C6" in refused["detail"]
    assert (
        refused["title"]
        == "A file or an environment variable that the cluster's properties refer to cannot be used."
    )


def test_numbers_rise_and_are_never_given_again(rest: Rest) -> None:
    rest.add_clusters("c1", "c2")
    assert rest("DELETE", "/clusters/c2").status_code == 204
    problem(rest("GET", "/clusters/c2"), 404, "not-found")
    rest.add_clusters("c2", "c3")
    numbers = {row["name"]: row["number"] for row in rest("GET", "/clusters").json()["items"]}
    assert numbers == {"c1": 1, "c2": 3, "c3": 4}


def test_concurrent_additions_get_different_numbers(rest: Rest) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(rest.add_clusters, ["c1", "c2", "c3", "c4"]))
    assert [row["number"] for row in rest("GET", "/clusters").json()["items"]] == [1, 2, 3, 4]


def test_a_change_keeps_what_it_does_not_name(rest: Rest, monkeypatch) -> None:
    monkeypatch.setenv("C6", "x")
    before = rest("POST", "/clusters", NEW).json()
    answer = rest("PATCH", "/clusters/cluster-6", {"zone": "az2"})
    assert answer.status_code == 200
    assert answer.json() == before | {"zone": "az2", "position": answer.json()["position"]}
    assert answer.headers["etag"] == rest("GET", "/clusters/cluster-6").headers["etag"] == '"3"'
    cleared = rest("PATCH", "/clusters/cluster-6", {"zone": None}).json()
    assert cleared["zone"] is None


def test_a_change_to_what_is_already_there_adds_no_event(rest: Rest, monkeypatch) -> None:
    monkeypatch.setenv("C6", "x")
    rest("POST", "/clusters", NEW)
    head = rest.head()
    same = {**SAID, "properties": {"sasl.username": "app", "sasl.password": "***"}}
    del same["name"]
    assert rest("PATCH", "/clusters/cluster-6", same).status_code == 200
    assert rest("PATCH", "/clusters/cluster-6", {}).status_code == 200
    assert rest.head() == head


@some_now(
    "change",
    [
        {"name": "other"},
        {"number": 9},
        {"topic_format": ""},
        {"bootstrap_servers": "x"},
        {"bootstrap_servers": "127.0.0.1:10"},
    ],
    now=(0, 3),
)
def test_a_bad_change_is_refused_and_nothing_changes(settled: Rest, change: dict[str, Any]) -> None:
    assert settled("PATCH", "/clusters/c1", change).status_code == 422


def test_a_new_address_is_taken_unanswered_if_offline_is_accepted(clusters: Rest) -> None:
    answer = clusters("PATCH", "/clusters/c1", {"bootstrap_servers": "127.0.0.1:10", "accept_offline": True})
    assert answer.json()["bootstrap_servers"] == "127.0.0.1:10"


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "GET"])
@pytest.mark.parametrize("name", ["nothing", "A", "%00", "a%2Fb", "%ED%A0%80"])
def test_an_unknown_cluster_is_404(empty_rest: Rest, method: str, name: str) -> None:
    problem(empty_rest(method, f"/clusters/{name}", {} if method == "PATCH" else None), 404, "not-found")


@pytest.mark.parametrize("tag", ['"7"', "7", 'W/"1"', '"1', ""])
def test_a_stale_or_weak_tag_is_412_and_nothing_changes(settled: Rest, tag: str) -> None:
    problem(settled("PATCH", "/clusters/c1", {"zone": "az1"}, If_Match=tag), 412, "stale-version")
    problem(settled("DELETE", "/clusters/c1", If_Match=tag), 412, "stale-version")


def test_the_present_tag_or_a_star_lets_a_change_pass(clusters: Rest) -> None:
    for tag, zone in (('"1"', "az1"), ("*", "az2"), ('"9", "4"', "az3")):
        assert clusters("PATCH", "/clusters/c1", {"zone": zone}, If_Match=tag).status_code == 200


def test_of_two_editors_with_one_tag_one_wins(clusters: Rest) -> None:

    def edit(zone: str) -> int:
        return clusters("PATCH", "/clusters/c1", {"zone": zone}, If_Match='"1"').status_code

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(edit, ["az1", "az2"])) == [200, 412]


def test_a_leaf_of_a_tree_is_not_removed(grown: Rest) -> None:
    assert "tree main" in problem(grown("DELETE", "/clusters/c2"), 409, "state-conflict")["detail"]


def test_formats_are_not_changed_under_live_topics(tenant: Rest) -> None:
    environment = PROD
    assert tenant("PATCH", "/clusters/c1", {"topic_format": "{tenant}-{topic}"}).status_code == 200
    tenant("POST", f"{environment}/streams", {"name": "orders"})
    for change in ({"topic_format": "x-{topic}"}, {"group_format": "{group}"}, {"subject_format": "{topic}"}):
        document = problem(tenant("PATCH", "/clusters/c1", change), 409, "state-conflict")
        assert "acme/retail/prod/orders" in document["detail"]
    assert tenant("PATCH", "/clusters/c1", {"zone": "az1"}).status_code == 200


def test_formats_do_not_change_where_topics_are_left_after_the_cluster_left_the_tree(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    worker_records(tenant, applied("c3"))
    smaller = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    assert tenant("PUT", "/trees/main", smaller).status_code == 200
    document = problem(tenant("PATCH", "/clusters/c3", {"topic_format": "x-{topic}"}), 409, "state-conflict")
    assert "acme/retail/prod/orders has a topic on c3" in document["detail"]


def test_a_new_cluster_whose_formats_make_two_streams_meet_is_refused_naming_both(tenant: Rest) -> None:
    environment = PROD
    tenant("POST", "/tenants/acme/instances/retail/environments", {"name": "dev"})
    for path in (environment, environment.replace("prod", "dev")):
        assert tenant("POST", f"{path}/streams", {"name": "orders"}).status_code == 201
    head = tenant.head()
    body = {"name": "c4", "bootstrap_servers": NOBODY_LISTENS, "accept_offline": True}
    answer = tenant("POST", "/clusters", {**body, "topic_format": "{tenant}-{topic}"})
    detail = problem(answer, 409, "technical-name-taken")["detail"]
    assert "acme/retail/prod/orders" in detail
    assert "acme/retail/dev/orders" in detail
    assert tenant.head() == head
    assert tenant("POST", "/clusters", {**body, "topic_format": "{environment}-{topic}"}).status_code == 201


@pytest.mark.parametrize("offline", [True, False])
def test_a_dry_run_checks_and_changes_nothing(rest: Rest, offline: bool) -> None:
    answer = rest("POST", "/clusters?dry_run=true", {**NEW, "properties": {}, "accept_offline": offline})
    assert answer.status_code == (201 if offline else 422)
    if offline:
        assert answer.json()["number"] == 1
    assert rest.head() == 0
    problem(rest("GET", "/clusters/cluster-6"), 404, "not-found")


def test_a_dry_removal_and_change_leave_everything(clusters: Rest) -> None:
    assert clusters("PATCH", "/clusters/c1?dry_run=true", {"zone": "az9"}).json()["zone"] == "az9"
    assert clusters("DELETE", "/clusters/c1?dry_run=true").status_code == 204
    assert clusters("GET", "/clusters/c1").json()["zone"] is None


def test_a_repeat_with_its_key_gets_the_first_answer(rest: Rest) -> None:
    body = {**NEW, "properties": {}}
    first = rest("POST", "/clusters", body, Idempotency_Key="k1")
    head = rest.head()
    rest("PATCH", "/clusters/cluster-6", {"zone": "az9"})
    again = rest("POST", "/clusters", body, Idempotency_Key="k1")
    for part in ("location", "etag"):
        assert again.headers[part] == first.headers[part]
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert rest.head() == head + 1
    other = rest("POST", "/clusters", {**body, "zone": "az3"}, Idempotency_Key="k1")
    problem(other, 422, "idempotency-key-reused")


def test_repeats_at_once_all_get_the_first_answer(rest: Rest) -> None:
    def add(_: int) -> tuple[int, Any]:
        answer = rest("POST", "/clusters", {**NEW, "properties": {}}, Idempotency_Key="k9")
        return answer.status_code, answer.json()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(add, range(8)))
    assert answers[0][0] == 201
    assert all(answer == answers[0] for answer in answers)
    assert rest.head() == 2


def test_a_refusal_is_not_kept_under_its_key(rest: Rest) -> None:
    refused = rest("POST", "/clusters", {**NEW, "properties": {}, "accept_offline": False}, Idempotency_Key="k2")
    assert refused.status_code == 422
    assert rest("POST", "/clusters", {**NEW, "properties": {}}, Idempotency_Key="k2").status_code == 201


def test_earlier_positions_show_what_held_then(rest: Rest) -> None:
    rest.add_clusters("c1")
    added = rest.head()
    rest("PATCH", "/clusters/c1", {"zone": "az1"})
    changed = rest.head()
    rest("DELETE", "/clusters/c1")
    zones = [rest("GET", f"/clusters/c1?at={position}").json()["zone"] for position in (added, changed)]
    assert zones == [None, "az1"]
    problem(rest("GET", "/clusters/c1?at=0"), 404, "not-found")
    problem(rest("GET", f"/clusters/c1?at={changed + 1}"), 404, "not-found")
    assert rest("GET", f"/clusters?at={changed}").json()["items"][0]["zone"] == "az1"
    assert rest("GET", "/clusters?at=0").json()["items"] == []
    problem(rest("GET", f"/clusters?at={changed + 2}"), 422, "value-invalid")
