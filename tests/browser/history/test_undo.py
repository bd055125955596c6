"""Undo: what an event changed is restored by a command that is logged; later changes stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from backend.changes.undoing.finding import FINDERS, REASONS
from backend.eventlog.registry import domain_registry
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, TREE, Visitor, head, hidden, said, visitor

Do = Callable[[Console], Any]
ORDERS = f"{API_PROD}/streams/orders"
APPLICATION = f"{API_PROD}/applications/billing"
DISTRIBUTOR = "/trees/main/distributors/c1/2"


def _application(console: Console) -> None:
    """Create an application by an owner of one tenant; its request to the other tenant waits."""
    console.rest.ok("POST", "/users", {"name": "bob", "tenants": {"acme": "owner"}})
    token = console.rest.ok("POST", "/users/bob/tokens", {"name": "t"})["secret"]
    body = {"name": "billing", "consumes": ["acme/retail/prod/orders", "globex/shop/prod/items"]}
    Console(console.url, token).rest.ok("POST", f"{API_PROD}/applications", body)


def _decide(decision: str) -> Do:
    body = {"application": "acme/retail/prod/billing", "stream": "globex/shop/prod/items", "operation": "consume"}
    return lambda console: console.rest.ok("POST", "/tenants/globex/grants", {**body, "decision": decision})


def _user(console: Console) -> None:
    console.rest.ok("POST", "/users", {"name": "ada", "role": "viewer", "tenants": {"acme": "owner"}})


def rest(method: str, path: str, body: Any = None) -> Do:
    """Return a step that sends a request."""
    return lambda console: console.rest.ok(method, path, body)


def both(first: Do, second: Do) -> Do:
    """Return a step that runs both, one after the other."""
    return lambda console: (first(console), second(console))


CASES: dict[str, list[Do]] = {
    "DistributorTargetSwitched": [rest("PUT", "/trees/main/targets/c1/2", {"target": "c3"})],
    "DistributorPaused": [rest("PATCH", DISTRIBUTOR, {"paused": True})],
    "DistributorResumed": [
        rest("PATCH", DISTRIBUTOR, {"paused": True}),
        rest("PATCH", DISTRIBUTOR, {"paused": False}),
    ],
    "DistributorLimitChanged": [rest("PATCH", DISTRIBUTOR, {"bytes_per_second": 5000})],
    "DistributorCompressionChanged": [rest("PATCH", DISTRIBUTOR, {"compression": "zstd"})],
    "TreeReplaced": [rest("PUT", "/trees/main", {"level": 2, "children": [{"cluster": "c1"}, {"cluster": "c2"}]})],
    "PrimaryMoveBegun": [rest("PUT", "/trees/main/primary", {"cluster": "c2"})],
    "ClusterChanged": [rest("PATCH", "/clusters/c1", {"zone": "az9", "accept_offline": True})],
    "ClusterDefaultsSet": [
        rest("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 3, "min_insync_replicas": 1}}),
        rest("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 2, "min_insync_replicas": 1}}),
    ],
    "ClusterAdded": [
        rest("POST", "/clusters", {"name": "c9", "bootstrap_servers": "127.0.0.1:8", "accept_offline": True})
    ],
    "PlacementPolicySet": [rest("PUT", "/clusters/c1/placement-policy", {"policy": "off", "away_minutes": 5})],
    "EnvironmentChanged": [rest("PATCH", API_PROD, {"margin_seconds": 7, "offset_mode": "exact"})],
    "StreamChanged": [rest("PATCH", ORDERS, {"max_message_bytes": 4_000_000, "min_insync_replicas": 1})],
    "StreamDeclared": [rest("POST", f"{API_PROD}/streams", {"name": "later", "partitions": 2})],
    "StreamDeleted": [rest("DELETE", f"{ORDERS}?confirm=acme/retail/prod/orders")],
    "ApplicationDeclared": [_application],
    "ApplicationChanged": [
        _application,
        rest("PATCH", APPLICATION, {"producer_bytes_per_second": 9999}),
    ],
    "AccessGranted": [_application, _decide("grant")],
    "AccessWithdrawn": [_application, _decide("grant"), _decide("withdraw")],
    "UserCreated": [_user],
    "UserChanged": [_user, rest("PATCH", "/users/ada", {"role": "operator", "disabled": True})],
    "MembershipGiven": [_user, rest("PATCH", "/users/ada", {"tenants": {"acme": "member"}})],
    "MembershipEnded": [_user, rest("PATCH", "/users/ada", {"tenants": {}})],
    "TokenIssued": [_user, rest("POST", "/users/ada/tokens", {"name": "ci"})],
}
NOT_AS_BEFORE = {
    "StreamDeleted": {("stream", "acme/retail/prod/orders")},  # counted on
    "ApplicationDeclared": set(),
    "AccessGranted": {("grant", "acme/retail/prod/billing consume globex/shop/prod/items")},
    "AccessWithdrawn": {("grant", "acme/retail/prod/billing consume globex/shop/prod/items")},  # with a reason
    "UserCreated": {("user", "ada"), ("member", "ada of acme")},
    # A row that describes the state without an undo:
    "DistributorPaused": {("settings of distributor", "c1:2")},
    "DistributorLimitChanged": {("settings of distributor", "c1:2")},
    "DistributorCompressionChanged": {("settings of distributor", "c1:2")},
    "PlacementPolicySet": {("placement policy", "c1")},
}
"""Differences that remain after an undo, and why they are reported."""


def event(console: Console, name: str) -> int:
    """Return the position of the newest event of a kind."""
    found = console.rest.ok("GET", "/events?limit=1000")["items"]
    return max(int(each["position"]) for each in found if each["name"] == name)


def test_each_kind_of_event_is_undone_is_not_with_a_reason_or_is_nobodys_doing() -> None:
    kinds = domain_registry().classes.keys()
    assert FINDERS.keys() <= kinds and REASONS.keys() <= kinds and not FINDERS.keys() & REASONS.keys()
    assert FINDERS.keys() - CASES.keys() == {"PrimaryMoved", "AccessRefused"}


@some_now("name", CASES, now=(0, 5, 7, 12, 14, 15, 18, 22))
def test_what_it_changed_is_as_before(acme: Console, name: str) -> None:
    *earlier, step = CASES[name]
    for each in earlier:
        each(acme)
    before = head(acme)["position"]
    step(acme)
    position = event(acme, name)
    assert position > before
    if name == "ApplicationDeclared":
        before = position - 1  # behind who declares it
    path = f"/events/{position}/undo?dry_run=true"
    asked = acme.rest("POST", path)
    named = asked.json()["detail"].rpartition(", ")[2] if asked.status_code == 409 else None
    # A dry run, too, needs the confirmation that the undo would need; the refusal names it.
    tried = acme.rest.ok("POST", path, {"confirm": named} if named else {})
    assert tried["confirm"] == named
    assert tried["changes"] and head(acme)["position"] >= position
    assert event(acme, name) == position
    confirm = {"confirm": tried["confirm"]} if tried["confirm"] else {}
    if confirm:
        assert acme.rest("POST", f"/events/{position}/undo").status_code == 409
        assert acme.rest("POST", f"/events/{position}/undo", {"confirm": "x"}).status_code == 409
    done = acme.rest.ok("POST", f"/events/{position}/undo", confirm)
    assert done["changes"] == tried["changes"] and done["undone"] == name
    left = acme.rest.ok("GET", f"/events/differences?from={before}")["items"]
    assert {(each["kind"], each["name"]) for each in left} <= NOT_AS_BEFORE.get(name, set())
    by = acme.rest.ok("GET", f"/events?after={done['by'][0]['position'] - 1}&limit=1")["items"][0]
    assert by["metadata"]["causation"] == f"undo of {position}"
    assert acme.rest("POST", f"/events/{position}/undo", confirm).status_code in (404, 409)


def test_what_somebody_changed_since_is_not_written_over(acme: Console) -> None:
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 7})
    position = event(acme, "EnvironmentChanged")
    acme.rest.ok("PATCH", API_PROD, {"offset_mode": "exact"})  # another field
    tried = acme.rest.ok("POST", f"/events/{position}/undo?dry_run=true")
    assert tried["changes"][0]["after"] == {"margin_seconds": 60}
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 8})
    refused = acme.rest("POST", f"/events/{position}/undo")
    assert refused.status_code == 409
    assert "margin seconds of acme/retail/prod is 8 now, not 7" in refused.json()["detail"]
    assert acme.rest.ok("GET", API_PROD)["margin_seconds"] == 8


@pytest.mark.parametrize(
    ("name", "why"),
    [("TenantCreated", "a new resource stays"), ("ClusterWentOffline", "observed or did by itself")],
)
def test_what_no_command_takes_back_is_told(acme: Console, name: str, why: str) -> None:
    refused = acme.rest("POST", f"/events/{event(acme, name)}/undo")
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:treeline:cannot-be-undone")
    assert why in refused.json()["detail"]
    page = visitor(acme, "operator").get(f"/timeline/{event(acme, name)}/-undo")
    assert page.status_code == 422 and why in said(page)
    # There is nothing to continue with.
    assert 'value="preview"' not in page.text and "Nothing was changed" in said(page)


def test_partitions_are_never_taken_away(acme: Console) -> None:
    acme.rest.ok("PATCH", ORDERS, {"partitions": 8})
    refused = acme.rest("POST", f"/events/{event(acme, 'StreamChanged')}/undo")
    assert refused.status_code == 422 and "Kafka cannot remove partitions" in refused.json()["detail"]


def test_it_needs_what_the_undoing_command_needs(acme: Console) -> None:
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 7})
    position, target = event(acme, "EnvironmentChanged"), event(acme, "TreeReplaced")
    member, stranger, owner = (visitor(acme, kind) for kind in ("member", "stranger", "owner"))
    path = f"/timeline/{position}/-undo"
    assert member.get(path).status_code == 403 and stranger.get(path).status_code == 404
    assert owner.get(f"/timeline/{target}/-undo").status_code == 404
    assert owner.get(path).status_code == 200


def test_the_page_shows_what_it_would_do_and_does_it_once(acme: Console) -> None:
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 7})
    position = event(acme, "EnvironmentChanged")
    owner = Visitor(acme, "eve", acme="owner")
    assert f'href="/timeline/{position}/-undo"' in owner.get(f"/timeline/{position}").text
    path = f"/timeline/{position}/-undo"
    text = said(owner.get(path))
    assert "will be undone by a new event: EnvironmentChanged. Earlier events stay in the log." in text
    assert "Margin (seconds) 7 60" in text
    assert f"treeline undo {position}" in text
    assert acme.rest.ok("GET", API_PROD)["margin_seconds"] == 7
    assert owner.confirm(path).status_code == 303
    assert acme.rest.ok("GET", API_PROD)["margin_seconds"] == 60
    again = owner.get(path)
    assert again.status_code == 409 and "somebody changed it since" in said(again)


def test_by_mouse_and_with_the_name_typed_where_records_may_go(acme: Console, open_page: Any) -> None:
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": "later", "partitions": 2})
    page = open_page(acme, f"/timeline/{event(acme, 'StreamDeclared')}")
    page.locator("#undo").click()
    expect(page.get_by_text("with their records")).to_be_visible()
    page.get_by_label("Type acme/retail/prod/later").fill("acme/retail/prod/later")
    page.get_by_role("button", name="Undo event").click()
    expect(page).to_have_url(f"{acme.url}/timeline")
    expect(page.locator("[data-event]").first).to_contain_text("Stream acme/retail/prod/later deleted")


def test_the_tree_as_it_was_is_set_again(acme: Console) -> None:
    acme.rest.ok("PUT", "/trees/main", {"level": 2, "children": [{"cluster": "c1"}, {"cluster": "c2"}]})
    acme.rest.ok("POST", f"/events/{event(acme, 'TreeReplaced')}/undo")
    assert acme.rest.ok("GET", "/trees/main")["root"] == TREE


AGAIN: dict[str, tuple[list[Do], Do]] = {
    "ClusterAdded": (
        [*CASES["ClusterAdded"], rest("DELETE", "/clusters/c9")],
        rest("POST", "/clusters", {"name": "c9", "bootstrap_servers": "127.0.0.1:7", "accept_offline": True}),
    ),
    "StreamDeclared": (
        [*CASES["StreamDeclared"], rest("DELETE", f"{API_PROD}/streams/later?confirm=acme/retail/prod/later")],
        rest("POST", f"{API_PROD}/streams", {"name": "later", "partitions": 7}),
    ),
    "ApplicationDeclared": (
        [_application, rest("DELETE", APPLICATION)],
        rest("POST", f"{API_PROD}/applications", {"name": "billing", "consumes": ["acme/retail/prod/orders"]}),
    ),
    "ClusterChanged": (
        [*CASES["ClusterAdded"], rest("PATCH", "/clusters/c9", {"zone": "az9", "accept_offline": True})],
        both(
            rest("DELETE", "/clusters/c9"),
            rest(
                "POST",
                "/clusters",
                {"name": "c9", "bootstrap_servers": "127.0.0.1:7", "zone": "az9", "accept_offline": True},
            ),
        ),
    ),
    "StreamChanged": (
        [*CASES["StreamDeclared"], rest("PATCH", f"{API_PROD}/streams/later", {"retention_ms": 5000})],
        both(
            rest("DELETE", f"{API_PROD}/streams/later?confirm=acme/retail/prod/later"),
            rest("POST", f"{API_PROD}/streams", {"name": "later", "partitions": 7, "retention_ms": 5000}),
        ),
    ),
    "ApplicationChanged": (
        [_application, rest("PATCH", APPLICATION, {"groups": ["readers"]})],
        both(
            rest("DELETE", APPLICATION),
            rest("POST", f"{API_PROD}/applications", {"name": "billing", "groups": ["readers"]}),
        ),
    ),
    "AccessGranted": (
        [_application, _decide("grant")],
        both(_decide("withdraw"), _decide("grant")),
    ),
    "MembershipGiven": (
        [_user],
        both(
            rest("DELETE", "/tenants/acme/members/ada"),
            rest("PUT", "/tenants/acme/members/ada", {"membership": "owner"}),
        ),
    ),
    "TokenIssued": (
        [*CASES["TokenIssued"], rest("DELETE", "/users/ada/tokens/ci")],
        rest("POST", "/users/ada/tokens", {"name": "ci"}),
    ),
    "PrimaryMoveBegun": (
        [*CASES["PrimaryMoveBegun"], rest("PUT", "/trees/main/primary", {"cluster": "c1"})],
        rest("PUT", "/trees/main/primary", {"cluster": "c2"}),
    ),
}


@some_now("name", AGAIN, now=(1, 6))
def test_a_newer_thing_of_the_same_name_is_not_what_is_undone(acme: Console, name: str) -> None:
    steps, again = AGAIN[name]
    for step in steps:
        step(acme)
    position = event(acme, name)
    again(acme)
    newest = head(acme)["position"]
    for confirm in (None, "acme/retail/prod/later", "acme/retail/prod/billing"):
        refused = acme.rest("POST", f"/events/{position}/undo", {"confirm": confirm} if confirm else None)
        assert refused.status_code == 409 and "belongs to another resource" in refused.json()["detail"]
    assert head(acme)["position"] == newest


def test_an_undone_refusal_grants_nothing_that_was_not_granted(acme: Console) -> None:
    _application(acme)
    _decide("refuse")(acme)
    refused = acme.rest("POST", f"/events/{event(acme, 'AccessRefused')}/undo")
    assert refused.status_code == 422 and "Nothing was granted before" in refused.json()["detail"]


def test_a_tree_that_is_set_again_says_what_is_not_as_before(acme: Console) -> None:
    acme.rest.ok("PATCH", DISTRIBUTOR, {"paused": True, "bytes_per_second": 5000})
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    without = {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}
    acme.rest.ok("PUT", "/trees/main?primary=c2", without)
    done = acme.rest.ok("POST", f"/events/{event(acme, 'TreeReplaced')}/undo")
    said = " ".join(done["notes"])
    assert "c1:2 was paused and will run" in said and "its own limit or compression" in said
    assert "c1:2 copied to c3 and will copy to c2" in said
    assert "The primary stays c2; it was c1 before the event." in said
    assert acme.rest.ok("GET", "/trees/main")["primary_cluster"] == "c2"


@pytest.mark.nightly  # idempotency of writing routes: test_every_writing_route, test_rest_general
def test_one_request_sent_twice_is_done_once_and_answered_alike(acme: Console) -> None:
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 7})
    position = event(acme, "EnvironmentChanged")
    first, second = (acme.rest("POST", f"/events/{position}/undo", {}, idempotency_key="k-1") for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200) and first.json() == second.json()
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 8})
    owner, path = Visitor(acme, "eve", acme="owner"), f"/timeline/{event(acme, 'EnvironmentChanged')}/-undo"
    sent = {**hidden(owner.get(path)), "step": "confirm"}
    assert [owner.client.post(path, data=sent).status_code for _ in range(2)] == [303, 303]
    assert acme.rest("POST", f"/events/{position}/undo", {}, if_match='"1"').status_code == 422
