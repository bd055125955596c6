"""If-Match, idempotency keys and dry runs, for requests of switches and for clients that sign off."""

from __future__ import annotations

from backend.domain.switch.cluster_switch import Phase
from tests.postgres.switch.test_discovery import MOVED, discover, start, switched, to
from tests.support.api.rest import Rest, problem


def version(rest: Rest) -> str:
    """Return the ETag of s1."""
    return str(rest("GET", "/switches/s1").headers["ETag"])


def test_a_switch_that_has_gone_on_is_not_taken_back_or_forced_by_what_was_read_before(tenant: Rest) -> None:
    discover(tenant, client_id="orders-1", role="producer", generation=1)
    switched(tenant, start(), to(Phase.HOLDING))
    read = version(tenant)
    assert tenant("POST", "/switches/s1/force", If_Match=read).status_code == 202
    head = tenant.head()
    for what in ("force", "abort", "abort?dry_run=true"):
        problem(tenant("POST", f"/switches/s1/{what}", If_Match=read), 412, "stale-version")
    assert tenant.head() == head
    assert tenant("POST", "/switches/s1/abort", If_Match=version(tenant)).status_code == 202


def test_the_way_back_is_of_the_switch_that_was_read(tenant: Rest) -> None:
    switched(tenant, start(), *MOVED[:-1])
    read = version(tenant)
    switched(tenant, MOVED[-1])
    problem(tenant("POST", "/switches/s1/reverse", If_Match=read), 412, "stale-version")


def test_an_abort_with_a_key_is_answered_once(tenant: Rest) -> None:
    switched(tenant, start(), to(Phase.HOLDING))
    rehearsed = tenant("POST", "/switches/s1/abort?dry_run=true", {"reason": "r"}, Idempotency_Key="k")
    assert (rehearsed.status_code, rehearsed.json()["state"]) == (202, "aborted")
    assert tenant("GET", "/switches/s1").json()["state"] == "holding", "that was a rehearsal"
    first = tenant("POST", "/switches/s1/abort", {"reason": "r"}, Idempotency_Key="k")
    head = tenant.head()
    again = tenant("POST", "/switches/s1/abort", {"reason": "r"}, Idempotency_Key="k")
    assert (first.status_code, first.json()["reason"]) == (202, "r")
    assert (again.status_code, again.json(), tenant.head()) == (202, first.json(), head)
    other = tenant("POST", "/switches/s1/abort", {"reason": "another"}, Idempotency_Key="k")
    problem(other, 422, "idempotency-key-reused")


def test_a_goodbye_can_be_rehearsed(tenant: Rest) -> None:
    place = "tenant=acme&instance=retail&environment=prod"
    discover(tenant, client_id="orders-1", role="producer", generation=1)
    for dry_run, left in (("true", 1), ("false", 0)):
        answer = tenant("DELETE", f"/discovery/clients/orders-1?{place}&dry_run={dry_run}")
        assert answer.status_code == 204
        assert len(tenant("GET", f"/discovery/clients?{place}").json()["items"]) == left
    problem(tenant("DELETE", f"/discovery/clients/orders-1?{place}&dry_run=true"), 404, "not-found")
