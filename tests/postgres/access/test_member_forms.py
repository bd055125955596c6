"""Members of a tenant: shown on the tenant's page, and changed by forms."""

from __future__ import annotations

import pytest

from tests.support.api import http
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, head, hidden, rows, said

ACME = "/tenants/acme"
NEW, CHANGE, REMOVE = (f"{ACME}/-members/{each}" for each in ("-new", "mia/-change", "mia/-remove"))
FORMS = {
    NEW: {"user": "gil", "membership": "member"},
    CHANGE: {"membership": "owner", "version": "member"},
    REMOVE: {"version": "member"},
}


@pytest.fixture
def acme(console: Console) -> Console:
    """Return a console where mia is a member of acme, and gil owns globex."""
    for name, tenants in (("mia", {"acme": "member"}), ("gil", {"globex": "owner"})):
        console.rest.ok("POST", "/users", {"name": name, "tenants": tenants})
    return console


@pytest.fixture
def owner(acme: Console) -> Visitor:
    return Visitor(acme, "otto", acme="owner")


def members(console: Console) -> dict[str, str]:
    return {row["user"]: row["membership"] for row in console.rest.ok("GET", "/tenants/acme/members")["items"]}


def test_the_tenants_page_lists_its_members_with_ways_to_change_them(acme: Console, owner: Visitor) -> None:
    acme.rest.ok("PATCH", "/users/mia", {"disabled": True})
    page = owner.get(ACME)
    assert rows(page, "data-member") == {
        "mia": "mia member disabled Change Remove",
        "otto": "otto owner active Change Remove",
    }
    assert all(f'href="{path}"' in page.text for path in FORMS)
    assert "gil" not in page.text
    viewer = Visitor(acme, "vic", "viewer").get(ACME)
    assert rows(viewer, "data-member")["mia"] == "mia member disabled"
    assert "manage-members" in said(viewer)
    assert "-members/" not in viewer.text


def test_a_member_is_added_changed_and_removed_after_previews_that_say_so(acme: Console, owner: Visitor) -> None:
    typed = owner.send(NEW, step="check", user="gil", membership="owner")
    assert "gil will be owner of acme, effective with the next request" in said(typed)
    assert "globex" not in typed.text
    preview = owner.preview(NEW, **FORMS[NEW])
    assert rows(preview, "data-field")["Permissions"] == "Permissions declare-streams, messages:read, read-tenant"
    assert code(preview, "same-command") == "treeline member set acme gil member"
    assert '-X PUT "$TREELINE_URL/api/v1/tenants/acme/members/gil"' in code(preview, "same-curl")
    assert members(acme) == {"mia": "member", "otto": "owner"}
    assert owner.confirm(NEW, **FORMS[NEW]).headers["location"] == f"{ACME}#members"
    assert "is member of acme already" in said(owner.preview(NEW, **FORMS[NEW]))

    preview = owner.preview(CHANGE, **FORMS[CHANGE])
    assert rows(preview, "data-field")["Membership"] == "Membership member owner"
    assert owner.confirm(CHANGE, **FORMS[CHANGE]).status_code == 303
    assert members(acme) == {"gil": "member", "mia": "owner", "otto": "owner"}

    remove = {"version": "owner"}
    preview = owner.preview(REMOVE, **remove)
    assert "mia will no longer be a member of acme" in said(preview)
    assert code(preview, "same-command") == "treeline member remove acme mia"
    assert owner.confirm(REMOVE, **remove).headers["location"] == f"{ACME}#members"
    assert members(acme) == {"gil": "member", "otto": "owner"}
    last = acme.rest.ok("GET", f"/events?after={head(acme)['position'] - 1}")["items"][0]
    assert (last["name"], last["metadata"]["actor"]) == ("MembershipEnded", "otto")


def test_who_leaves_itself_is_warned_and_sent_where_it_may_still_look(acme: Console, owner: Visitor) -> None:
    preview = owner.preview(f"{ACME}/-members/otto/-remove", version="owner")
    assert "This changes your own access" in said(preview)
    assert "acme will have no owner" in said(preview)
    done = owner.client.post(
        f"{ACME}/-members/otto/-remove", data={**hidden(preview), "step": "confirm", "key": owner.key}
    )
    assert done.headers["location"] == "/tenants"
    assert owner.get(ACME).status_code == 404


def test_what_is_wrong_is_said_and_what_changed_meanwhile_is_not_written_over(
    acme: Console, owner: Visitor
) -> None:
    for fields, status, words in (
        ({"user": "nobody", "membership": "member"}, 404, "there is no user 'nobody'"),
        ({"user": "", "membership": "member"}, 404, "there is no user"),
        ({"user": "gil", "membership": "boss"}, 422, "must be one of member, owner"),
    ):
        answer = owner.send(NEW, step="preview", **fields)
        assert answer.status_code == status
        assert words in said(answer)
    for path in (f"{ACME}/-members/gil/-change", f"{ACME}/-members/nobody/-remove", f"{ACME}/-members/A/-remove"):
        assert owner.get(path).status_code == 404
    sent = {path: {**hidden(owner.preview(path, **FORMS[path])), "step": "confirm"} for path in (CHANGE, REMOVE)}
    acme.rest.ok("PATCH", "/users/mia", {"tenants": {"acme": "owner", "globex": "member"}})
    for path, data in sent.items():
        stale = owner.client.post(path, data=data)
        assert stale.status_code == 412
        assert "somebody changed it" in said(stale)
        assert 'name="version" value="owner"' in stale.text
    # What a user is elsewhere is none of this tenant's business, and changes nothing here.
    sent = {**hidden(owner.preview(REMOVE, version="owner")), "step": "confirm"}
    acme.rest.ok("PATCH", "/users/mia", {"tenants": {"acme": "owner"}})
    assert owner.client.post(REMOVE, data=sent).status_code == 303


def test_only_owners_and_admins_change_members_by_forms_of_their_own_session(acme: Console) -> None:
    users = {
        403: [
            Visitor(acme, "max", acme="member"),
            Visitor(acme, "vic", "viewer"),
            Visitor(acme, "op", "operator"),
        ],
        404: [Visitor(acme, "eve", globex="owner")],
        200: [Visitor(acme, "ann", "admin")],
    }
    before, there = head(acme), members(acme)
    for status, visitors in users.items():
        for user in visitors:
            for path, fields in FORMS.items():
                assert user.get(path).status_code == status, path
                assert user.send(path, step="preview", **fields).status_code == status, path
                if status != 200:
                    done = user.send(path, step="confirm", once="x" * 20, **fields)
                    assert done.status_code == status
                    assert ("mia" in said(done)) is False
    for path, fields in FORMS.items():
        data = {"step": "confirm", "once": "x" * 20, **fields}
        [admin] = users[200]
        assert admin.client.post(path, data=data).status_code == 403
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert admin.client.post(path, data={"key": admin.key, **data}, headers=foreign).status_code == 403
        assert http.get(f"{acme.url}{path}").status_code == 401
    assert (head(acme), members(acme)) == (before, there)
