"""The permissions of each role as a table; and the refusals."""

from __future__ import annotations

import pytest

from backend.domain.access.access import (
    ADMIN,
    Action,
    Caller,
    Membership,
    Role,
    may,
    may_somewhere,
    no_tenant,
    refusal,
)
from backend.domain.base.errors import NotAllowed, NotFound

ELSEWHERE = "globex"
# In the order of the columns: nobody special, viewer, operator, admin; then within acme: member, owner.
TABLE = {
    Action.OWN_ACCOUNT: "yes yes yes yes yes yes",
    Action.READ_ESTATE: "no  yes yes yes no  no",
    Action.CHANGE_ESTATE: "no  no  yes yes no  no",
    Action.READ_TENANT: "no  yes yes yes yes yes",
    Action.READ_MESSAGES: "no  no  yes yes yes yes",
    Action.PRODUCE_MESSAGES: "no  no  yes yes no  yes",
    Action.DECLARE_STREAMS: "no  no  yes yes yes yes",
    Action.MANAGE_TENANT: "no  no  yes yes no  yes",
    Action.DECIDE_ACCESS: "no  no  yes yes no  yes",
    Action.MANAGE_MEMBERS: "no  no  no  yes no  yes",
    Action.MANAGE_USERS: "no  no  no  yes no  no",
    Action.MANAGE_WEBHOOKS: "no  no  no  yes no  no",
}
CALLERS = (
    *(Caller(name="ada", role=role) for role in Role),
    *(Caller(name="ada", role=Role.TENANT, tenants={"acme": each}) for each in Membership),
)
CASES = [
    (caller, action, word == "yes")
    for action, row in TABLE.items()
    for caller, word in zip(CALLERS, row.split(), strict=True)
]


def test_the_table_has_every_action() -> None:
    assert set(TABLE) == set(Action)


@pytest.mark.parametrize(("caller", "action", "allowed"), CASES)
def test_what_roles_and_memberships_allow(caller: Caller, action: Action, allowed: bool) -> None:
    assert may(caller, action, "acme") is allowed
    assert (refusal(caller, action, "acme") is None) is allowed
    assert may_somewhere(caller, action) is allowed


@pytest.mark.parametrize(("caller", "action", "_"), CASES)
def test_a_membership_gives_nothing_elsewhere(caller: Caller, action: Action, _: bool) -> None:
    everywhere = may(Caller(name="ada", role=caller.role), action)
    assert may(caller, action, ELSEWHERE) is everywhere
    assert may(caller, action) is everywhere


def test_anothers_tenant_is_unknown_in_the_same_words_as_one_that_nobody_has() -> None:
    for caller in CALLERS[:1] + CALLERS[4:]:
        for action in set(Action) - {Action.OWN_ACCOUNT}:
            found = refusal(caller, action, ELSEWHERE)
            assert type(found) is NotFound
            assert found.detail == no_tenant(ELSEWHERE).detail


@pytest.mark.parametrize(
    ("caller", "action", "said"),
    [
        (CALLERS[4], Action.MANAGE_TENANT, "operator, admin, owner of acme; ada is tenant and member of acme"),
        (CALLERS[1], Action.CHANGE_ESTATE, "operator, admin; ada is viewer"),
    ],
)
def test_who_may_know_of_it_hears_what_is_missing(caller: Caller, action: Action, said: str) -> None:
    found = refusal(caller, action, "acme")
    assert type(found) is NotAllowed
    assert str(action) in found.detail
    assert found.detail.endswith(said)


def test_the_tenants_of_a_caller() -> None:
    both = Caller(name="ada", role=Role.TENANT, tenants={"acme": Membership.OWNER, "globex": Membership.MEMBER})
    assert both.tenants_for(Action.READ_TENANT) == {"acme", "globex"}
    assert both.tenants_for(Action.MANAGE_TENANT) == {"acme"}
    assert both.tenants_for(Action.READ_ESTATE) == frozenset()
    assert ADMIN.tenants_for(Action.MANAGE_TENANT) is None
