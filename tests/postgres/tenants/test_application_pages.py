"""Pages of applications: declaring one, its owners' decisions, its password."""

from __future__ import annotations

import html
import re

import pytest

from backend.deciders import APPLICATION
from backend.domain.tenants.application_records import (
    ApplicationRecord,
    RecordAccessApplied,
    RecordAccessFailed,
    RecordAccessRemoved,
)
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import (
    API_PROD,
    PROD,
    Visitor,
    add_clusters,
    add_tenants,
    code,
    head,
    hidden,
    record,
    rows,
    said,
)
from tests.support.database.postgres import Database

NEW = f"{PROD}/-applications/-new"
BILLING = f"{PROD}/-applications/billing"
FIELDS = {"name": "billing", "groups": "", "produces": "orders", "consumes": "globex/shop/prod/items"}
ASKED = {"application": "acme/retail/prod/billing", "stream": "globex/shop/prod/items", "operation": "consume"}
DECIDE = "/tenants/globex/-grants/-decide"


def test_an_application_is_declared_asked_for_and_granted(acme: Console) -> None:
    owner, globex = Visitor(acme, "ada", acme="owner"), Visitor(acme, "gil", globex="owner")
    preview = owner.preview(NEW, **FIELDS)
    assert "1 grant in force; 1 request for the streams' owners to decide" in said(preview)
    assert "topic acme-retail-prod-orders: write" in said(preview)
    assert "billing" in code(preview, "same-yaml")
    assert owner.confirm(NEW, **FIELDS).headers["location"] == BILLING
    page = owner.get(BILLING)
    assert rows(page, "data-grant") == {
        "consume globex/shop/prod/items": "globex/shop/prod/items consume requested "
        "pending decision by an owner of globex",
        "produce acme/retail/prod/orders": "acme/retail/prod/orders produce granted –",
    }
    assert rows(owner.get(PROD), "data-application")["billing"].startswith("billing 1 requested, 1 granted none")
    assert "1 request of applications is pending: your decision is needed" in said(globex.get("/tenants/globex"))
    waiting = rows(globex.get("/tenants/globex/-grants"), "data-grant")
    assert list(waiting) == ["acme/retail/prod/billing consume globex/shop/prod/items"]
    assert globex.get(BILLING).status_code == 404
    decision = globex.preview(DECIDE, **ASKED, decision="grant", reason="")
    assert "may consume from globex/shop/prod/items from now on" in said(decision)
    assert globex.confirm(DECIDE, **ASKED, decision="grant", reason="").status_code == 303
    assert "granted" in rows(owner.get(BILLING), "data-grant")["consume globex/shop/prod/items"]
    globex.confirm(DECIDE, **ASKED, decision="withdraw", reason="no longer")
    assert rows(owner.get(BILLING), "data-grant")["consume globex/shop/prod/items"].endswith("withdrawn no longer")


def test_what_is_refused_stands_at_its_field(acme: Console) -> None:
    owner = Visitor(acme, "ada", acme="owner")
    page = owner.send(NEW, step="preview", **{**FIELDS, "produces": "orders\nnothing"})
    assert page.status_code == 422
    assert "there is no stream acme/retail/prod/nothing" in said(page)
    assert 'id="wrong-produces"' in page.text
    theirs = owner.preview(NEW, **{**FIELDS, "consumes": "globex/shop/prod/nothing"})
    assert "1 request" in said(theirs), "whether others have it is not told"
    assert "must be a whole number" in said(owner.send(NEW, step="check", **{**FIELDS, "request_percentage": "x"}))


def test_who_may_not_decide_issue_or_declare_is_refused(acme: Console) -> None:
    owner, member = Visitor(acme, "ada", acme="owner"), Visitor(acme, "mia", acme="member")
    viewer, stranger = Visitor(acme, "vic", "viewer"), Visitor(acme, "gil", globex="owner")
    owner.confirm(NEW, **FIELDS)
    for user, path, status in (
        (viewer, NEW, 403),
        (stranger, NEW, 404),
        (member, f"{BILLING}/-credentials", 403),
        (stranger, f"{BILLING}/-credentials", 404),
        (stranger, f"{BILLING}/-change", 404),
        (member, f"{BILLING}/-revoke", 403),
        (stranger, f"{BILLING}/-revoke", 404),
        (viewer, f"{BILLING}/-delete", 403),
        (stranger, f"{BILLING}/-delete", 404),
        (owner, DECIDE, 404),
        (viewer, DECIDE, 403),
        (member, "/tenants/acme/-grants/-decide", 403),
    ):
        assert user.get(path).status_code == status, path
        assert user.send(path, step="confirm", once="x" * 20, **FIELDS, version="1").status_code == status, path
    other = {**ASKED, "application": "acme/retail/prod/other"}
    unknown = stranger.send(DECIDE, step="preview", **other, decision="grant")
    assert unknown.status_code == 404
    below = ("credentials", "revoke", "change", "delete")
    for path in (NEW, DECIDE, *(f"{BILLING}/-{each}" for each in below)):
        assert owner.client.post(path, data={"step": "confirm", "once": "x" * 20}).status_code == 403


def test_an_application_is_deleted_once_its_preview_said_what_ends(acme: Console) -> None:
    owner, member = Visitor(acme, "ada", acme="owner"), Visitor(acme, "mia", acme="member")
    owner.confirm(NEW, **FIELDS)
    path = f"{BILLING}/-delete"
    assert f'href="{path}"' in member.get(BILLING).text
    seen, before = hidden(member.get(path)), head(acme)
    preview = member.send(path, step="preview", **seen)
    assert "its access is removed from c1, c2 and c3, its grants for 2 streams end" in said(preview)
    assert rows(preview, "data-field")["Produces to"] == "Produces to acme/retail/prod/orders (granted) –"
    assert code(preview, "same-command") == "treeline delete application acme/retail/prod/billing"
    call = code(preview, "same-curl")
    assert f'-X DELETE "$TREELINE_URL/api/v1{API_PROD}/applications/billing"' in call
    assert f"""'If-Match: "{seen["version"]}"'""" in call
    assert head(acme) == before
    acme.rest.ok("PATCH", f"{API_PROD}/applications/billing", {"groups": ["other"]})
    stale = member.client.post(path, data={**hidden(preview), "step": "confirm"})
    assert stale.status_code == 412
    sent = {**hidden(member.send(path, step="preview", **hidden(stale))), "step": "confirm"}
    done = member.client.post(path, data=sent)
    assert (done.status_code, done.headers["location"]) == (303, PROD)
    assert rows(member.get(PROD), "data-application") == {}
    after = head(acme)
    assert member.client.post(path, data=sent).status_code == 404
    assert head(acme) == after
    assert acme.rest("GET", f"{API_PROD}/applications/billing").status_code == 404
    event = acme.rest.ok("GET", f"/events?after={after['position'] - 1}")["items"][0]
    assert (event["name"], event["metadata"]["actor"]) == ("ApplicationDeleted", "mia")


def test_a_change_says_what_will_be_asked_for_and_what_is_closed(acme: Console) -> None:
    owner = Visitor(acme, "ada", acme="owner")
    owner.confirm(NEW, **FIELDS)
    version = re.search('name="version" value="([0-9]+)"', owner.get(f"{BILLING}/-change").text)
    assert version is not None
    fields = {"groups": "billing nightly", "produces": "", "consumes": FIELDS["consumes"], "version": version[1]}
    preview = owner.preview(f"{BILLING}/-change", **fields)
    assert rows(preview, "data-field")["Groups"] == "Groups billing billing, nightly"
    assert owner.confirm(f"{BILLING}/-change", **fields).headers["location"] == BILLING
    assert "produce" not in "".join(rows(owner.get(BILLING), "data-grant"))
    stale = owner.send(f"{BILLING}/-change", step="preview", **{**fields, "groups": "other"})
    assert stale.status_code == 412


def test_what_is_to_be_removed_from_a_cluster_that_left_the_tree_is_shown(
    acme: Console, database: Database
) -> None:
    owner = Visitor(acme, "ada", acme="owner")
    owner.confirm(NEW, **FIELDS)

    def records(command: ApplicationRecord) -> None:
        record(database, command, APPLICATION, "application-acme/retail/prod/billing")

    records(RecordAccessApplied(cluster="c3", revision=2, parts={"acls": "applied", "quotas": "none"}))
    smaller = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    acme.rest.ok("PUT", "/trees/main", smaller)
    assert rows(owner.get(BILLING), "data-cluster")["c3"].split() == ["c3", "–", "–", "removing", "–"]
    assert "Applied on 0 of 2 clusters" in said(owner.get(BILLING))
    records(RecordAccessFailed(cluster="c3", reason="it <is> away"))
    assert rows(owner.get(BILLING), "data-cluster")["c3"].endswith("failed it <is> away")
    records(RecordAccessRemoved(cluster="c3", left=True))
    assert set(rows(owner.get(BILLING), "data-cluster")) == {"c1", "c2"}


def test_without_a_key_no_password_can_be_issued(acme: Console, database: Database) -> None:
    with serve_here(database.url, secrets_key=None) as console:
        owner = Visitor(console, "ada", acme="owner")
        owner.confirm(NEW, **FIELDS)
        form = owner.get(f"{BILLING}/-credentials")
        answer = owner.send(f"{BILLING}/-credentials", step="preview", **hidden(form))
    assert answer.status_code == 409
    assert "TREELINE_SECRETS_KEY" in said(answer)


@pytest.mark.nightly  # test_rest_credentials, with a mutant
def test_a_password_is_shown_once(database: Database) -> None:
    with serve_here(database.url, secrets_key="k" * 32) as console:
        add_clusters(console)
        add_tenants(console)
        owner = Visitor(console, "ada", acme="owner")
        owner.confirm(NEW, **FIELDS)
        path = f"{BILLING}/-credentials"
        preview = owner.send(path, step="preview", **hidden(owner.get(path)))
        assert "will get password number 1" in said(preview)
        sent = {**hidden(preview), "step": "confirm"}
        shown = owner.client.post(path, data=sent)
        assert shown.status_code == 200
        found = re.search('id="secret".*?<pre><code>(.*?)</code>', shown.text, re.DOTALL)
        assert found is not None
        password = html.unescape(found[1])
        assert len(password) == 43
        again = owner.client.post(path, data=sent)
        assert again.status_code == 303
        assert password not in owner.get(BILLING).text
        assert "number 1" in said(owner.get(BILLING))
        assert password not in console.rest("GET", "/events?after=0&limit=1000").text
        _revokes_it(owner, console)


def _revokes_it(owner: Visitor, console: Console) -> None:
    path = f"{BILLING}/-revoke"
    assert f'href="{path}"' in owner.get(BILLING).text
    preview = owner.send(path, step="preview", **hidden(owner.get(path)))
    assert "Password number 1 of acme/retail/prod/billing stops working" in said(preview)
    assert code(preview, "same-command") == "treeline credentials revoke acme/retail/prod/billing"
    assert f"{API_PROD}/applications/billing/credentials" in code(preview, "same-curl")
    assert console.rest.ok("GET", f"{API_PROD}/applications/billing")["credentials"] == {"number": 1}
    sent = {**hidden(preview), "step": "confirm"}
    assert owner.client.post(path, data=sent).headers["location"] == BILLING
    assert console.rest.ok("GET", f"{API_PROD}/applications/billing")["credentials"] is None
    assert "Password none yet" in said(owner.get(BILLING))
    assert f'href="{path}"' not in owner.get(BILLING).text
    before = head(console)
    again = owner.client.post(path, data=sent)
    assert again.status_code == 303
    none = owner.send(path, step="preview", **hidden(owner.get(path)))
    assert none.status_code == 404
    assert "has no credentials" in said(none)
    assert head(console) == before
