"""Event stream `user-<name>`: given events, when a command, then events or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest

from backend.domain.access import user
from backend.domain.access.passwords import check_password
from backend.domain.access.user import (
    LONGEST_TOKEN_DAYS,
    MOST_TENANTS,
    MOST_TOKENS,
    MOST_USERS,
    ChangeUser,
    CreateUser,
    EndMembership,
    GiveMembership,
    IssueToken,
    MembershipEnded,
    MembershipGiven,
    PasswordSet,
    RevokeToken,
    SetPassword,
    TokenIssued,
    TokenRevoked,
    UserChanged,
    UserCommand,
    UserCreated,
)
from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    NameInvalid,
    NotFound,
    StateConflict,
    ValueInvalid,
)
from backend.domain.base.event import Event

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)
TOO_LONG = timedelta(days=LONGEST_TOKEN_DAYS + 1)
CREATED = UserCreated(user="ada", role="tenant")
OWNER = MembershipGiven(user="ada", tenant="acme", membership="owner")
MEMBER = MembershipGiven(user="ada", tenant="acme", membership="member")
GONE = MembershipEnded(user="ada", tenant="acme")
DISABLED = UserChanged(user="ada", role="tenant", disabled=True)
ISSUED = TokenIssued(user="ada", token="ci", expires_at=None)
SHORT = TokenIssued(user="ada", token="ci", expires_at=(NOW + DAY).isoformat())
REVOKED = TokenRevoked(user="ada", token="ci")
KNOWN = frozenset({"acme", "globex"})
ISSUE = IssueToken(token="ci", now=NOW)
FULL = [TokenIssued(user="ada", token=f"t{n}", expires_at=None) for n in range(MOST_TOKENS)]


def when(given: Sequence[Event], command: UserCommand) -> list[Any]:
    return list(user.decide(reduce(user.evolve, given, user.INITIAL), command))


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], CreateUser(user="ada"), [CREATED]),
        ([], CreateUser(user="ada", role="viewer"), [UserCreated(user="ada", role="viewer")]),
        ([], CreateUser(user="ada", tenants={"acme": "owner"}, known_tenants=KNOWN), [CREATED, OWNER]),
        (
            [],
            CreateUser(user="ada", disabled=True, tenants={"acme": "owner"}, known_tenants=KNOWN),
            [CREATED, DISABLED, OWNER],
        ),
        ([CREATED], ChangeUser(), []),
        ([CREATED], ChangeUser(role="tenant", disabled=False, tenants={}), []),
        ([CREATED], ChangeUser(disabled=True), [DISABLED]),
        ([CREATED, DISABLED], ChangeUser(disabled=True), []),
        ([CREATED], ChangeUser(role="admin"), [UserChanged(user="ada", role="admin", disabled=False)]),
        ([CREATED, OWNER], ChangeUser(tenants={"acme": "member"}, known_tenants=KNOWN), [MEMBER]),
        (
            [CREATED, OWNER],
            ChangeUser(tenants={"globex": "owner"}, known_tenants=KNOWN),
            [MembershipGiven(user="ada", tenant="globex", membership="owner"), GONE],
        ),
        ([CREATED, OWNER], ChangeUser(role="tenant"), []),
        ([CREATED], GiveMembership(tenant="acme", membership="owner"), [OWNER]),
        ([CREATED, OWNER], GiveMembership(tenant="acme", membership="owner"), []),
        ([CREATED, OWNER], GiveMembership(tenant="acme", membership="member"), [MEMBER]),
        ([CREATED, OWNER], EndMembership(tenant="acme"), [GONE]),
        ([CREATED], SetPassword(), [PasswordSet(user="ada")]),
        ([CREATED], ISSUE, [ISSUED]),
        ([CREATED], IssueToken(token="ci", now=NOW, expires_at=NOW + DAY), [SHORT]),
        # Given again: after it was revoked, and after its time.
        ([CREATED, ISSUED, REVOKED], ISSUE, [ISSUED]),
        ([CREATED, SHORT], IssueToken(token="ci", now=NOW + DAY), [ISSUED]),
        ([CREATED, *FULL, TokenRevoked(user="ada", token="t0")], ISSUE, [ISSUED]),
        (
            [CREATED, *FULL[1:], SHORT],
            IssueToken(token="new", now=NOW + DAY),
            [TokenIssued(user="ada", token="new", expires_at=None)],
        ),
        ([CREATED, ISSUED], RevokeToken(token="ci"), [REVOKED]),
        ([CREATED, ISSUED, DISABLED], RevokeToken(token="ci"), [REVOKED]),
    ],
)
def test_decisions(given: list[Event], command: UserCommand, then: list[Event]) -> None:
    assert when(given, command) == then


@pytest.mark.parametrize(
    ("given", "command", "error"),
    [
        ([CREATED], CreateUser(user="ada"), AlreadyExists),
        # Or whoever is called so would pass for the admin of the settings.
        ([], CreateUser(user="admin"), AlreadyExists),
        ([], CreateUser(user="Ada"), NameInvalid),
        ([], CreateUser(user="worker:reconcile"), NameInvalid),
        ([], CreateUser(user="a" * 101), NameInvalid),
        ([], CreateUser(user="ada", role="root"), ValueInvalid),
        ([], CreateUser(user="ada", users=MOST_USERS), StateConflict),
        ([], CreateUser(user="ada", tenants={"nobody": "owner"}, known_tenants=KNOWN), ValueInvalid),
        ([], CreateUser(user="ada", tenants={"acme": "king"}, known_tenants=KNOWN), ValueInvalid),
        (
            [],
            CreateUser(user="ada", tenants=dict.fromkeys(map(str, range(MOST_TENANTS + 1)), "owner")),
            ValueInvalid,
        ),
        ([], ChangeUser(disabled=True), NotFound),
        ([CREATED], ChangeUser(role="root"), ValueInvalid),
        ([CREATED], GiveMembership(tenant="acme", membership=""), ValueInvalid),
        ([CREATED], EndMembership(tenant="acme"), NotFound),
        ([], SetPassword(), NotFound),
        ([], ISSUE, NotFound),
        ([CREATED, DISABLED], ISSUE, StateConflict),
        ([CREATED, ISSUED], ISSUE, AlreadyExists),
        ([CREATED, SHORT], ISSUE, AlreadyExists),
        ([CREATED, *FULL], ISSUE, StateConflict),
        ([CREATED], IssueToken(token="A token", now=NOW), NameInvalid),
        ([CREATED], IssueToken(token="ci", now=NOW, expires_at=NOW), ValueInvalid),
        (
            [CREATED],
            IssueToken(token="ci", now=NOW, expires_at=NOW + (LONGEST_TOKEN_DAYS + 1) * DAY),
            ValueInvalid,
        ),
        ([CREATED], RevokeToken(token="ci"), NotFound),
        ([CREATED, ISSUED, REVOKED], RevokeToken(token="ci"), NotFound),
    ],
)
def test_refusals(given: list[Event], command: UserCommand, error: type[DomainError]) -> None:
    with pytest.raises(error):
        when(given, command)


@pytest.mark.parametrize(
    "password", ["", "short", "a" * 200, "abcdabcdabcd", "x" * 201 + "abcdef", "a-rather-long-name"]
)
def test_what_is_no_password(password: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        check_password("a-rather-long-name", password)
    assert not password or password not in refused.value.detail


@pytest.mark.parametrize("password", ["correct horse battery", "пароль из слов", "x" * 195 + "abcde"])
def test_what_is_a_password(password: str) -> None:
    check_password("ada", password)
