"""Event stream `user-<name>`: a user's role, memberships, API tokens, and ways to log in.

Secrets are no part of it: an event says that a password was set or a token issued, and the hashes are kept in
tables of their own (`backend/queries/access/secrets.py`), since nothing can be removed from the log.

    (no user) --CreateUser--> exists, disabled or not, for good: events name users, so none is ever deleted
    (no token) --IssueToken--> live --RevokeToken--> revoked; or it expires. Its name can be used again then.
    (no identity) --LinkIdentity--> logs in through an OpenID provider --UnlinkIdentity--> no longer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from backend.domain.access.access import ADMIN_NAME, Membership, Role
from backend.domain.base.errors import TAKEN, AlreadyExists, FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.base.event import Event
from backend.domain.base.limits import range_errors, refuse
from backend.domain.names.names import check_name

MOST_USERS = 10_000
MOST_TOKENS = 20
MOST_TENANTS = 200
LONGEST_TOKEN_DAYS = 3650
# OpenID Connect Core, 2: a subject has at most 255 ASCII characters.
LONGEST_SUBJECT = 255

W = TypeVar("W", Role, Membership)

# --- events


@dataclass(frozen=True, kw_only=True)
class UserCreated(Event, name="UserCreated", version=1):
    """A user was created."""

    user: str
    role: str
    """Role in the whole estate: `tenant`, `viewer`, `operator` or `admin`."""


@dataclass(frozen=True, kw_only=True)
class UserChanged(Event, name="UserChanged", version=1):
    """The user's role, or whether the user is disabled, has changed."""

    user: str
    role: str
    disabled: bool
    """A disabled user can do nothing, with any token or password."""


@dataclass(frozen=True, kw_only=True)
class MembershipGiven(Event, name="MembershipGiven", version=1):
    """The user belongs to a tenant, or has another membership than before."""

    user: str
    tenant: str
    membership: str
    """`member` or `owner`."""


@dataclass(frozen=True, kw_only=True)
class MembershipEnded(Event, name="MembershipEnded", version=1):
    """The user no longer belongs to a tenant."""

    user: str
    tenant: str


@dataclass(frozen=True, kw_only=True)
class PasswordSet(Event, name="PasswordSet", version=1):
    """The user has a new password; all of the user's sessions have ended."""

    user: str


@dataclass(frozen=True, kw_only=True)
class TokenIssued(Event, name="TokenIssued", version=1):
    """The user has a new API token, which was shown once."""

    user: str
    token: str
    """Name of the token."""
    expires_at: str | None
    """ISO 8601; null if the token is valid until it is revoked."""


@dataclass(frozen=True, kw_only=True)
class TokenRevoked(Event, name="TokenRevoked", version=1):
    """The token is no longer valid."""

    user: str
    token: str


@dataclass(frozen=True, kw_only=True)
class IdentityLinked(Event, name="IdentityLinked", version=1):
    """A login to an OpenID provider as this subject is a login as the user from now on."""

    user: str
    issuer: str
    """Issuer identifier of the provider."""
    subject: str
    """The provider's permanent identifier of the person; names at a provider may be given to others."""


@dataclass(frozen=True, kw_only=True)
class IdentityUnlinked(Event, name="IdentityUnlinked", version=1):
    """The user can no longer log in through an OpenID provider."""

    user: str


UserEvent = (
    UserCreated
    | UserChanged
    | MembershipGiven
    | MembershipEnded
    | PasswordSet
    | TokenIssued
    | TokenRevoked
    | IdentityLinked
    | IdentityUnlinked
)

# --- commands


@dataclass(frozen=True, kw_only=True)
class CreateUser:
    """Create a user."""

    user: str
    role: str = Role.TENANT
    disabled: bool = False
    tenants: Mapping[str, str] = field(default_factory=dict)
    """Tenant -> membership."""
    known_tenants: frozenset[str] = frozenset()
    """Tenants of `tenants` that exist."""
    users: int = 0
    """Number of users that exist."""


@dataclass(frozen=True, kw_only=True)
class ChangeUser:
    """Change a user's role, memberships or disabled state; None keeps a value."""

    role: str | None = None
    disabled: bool | None = None
    tenants: Mapping[str, str] | None = None
    """The complete new memberships, tenant -> membership."""
    known_tenants: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class GiveMembership:
    """Give a user a membership of a tenant."""

    tenant: str
    membership: str


@dataclass(frozen=True, kw_only=True)
class EndMembership:
    """End a user's membership of a tenant."""

    tenant: str


@dataclass(frozen=True, kw_only=True)
class SetPassword:
    """Record that the user has a new password."""


@dataclass(frozen=True, kw_only=True)
class IssueToken:
    """Issue an API token with this name to the user."""

    token: str
    now: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RevokeToken:
    """Revoke a token."""

    token: str


@dataclass(frozen=True, kw_only=True)
class LinkIdentity:
    """Let a person whom an OpenID provider identifies log in as the user."""

    issuer: str
    subject: str
    linked_to: str | None = None
    """Name of the user that the identity is already linked to."""


@dataclass(frozen=True, kw_only=True)
class UnlinkIdentity:
    """End the user's login through an OpenID provider."""


UserCommand = (
    CreateUser
    | ChangeUser
    | GiveMembership
    | EndMembership
    | SetPassword
    | IssueToken
    | RevokeToken
    | LinkIdentity
    | UnlinkIdentity
)

# --- state


@dataclass(frozen=True, kw_only=True)
class User:
    """A user as its events left it. `tokens`: tokens that are not revoked -> their expiry."""

    name: str
    role: str
    disabled: bool = False
    tenants: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, datetime | None] = field(default_factory=dict)
    identity: tuple[str, str] | None = None
    """Issuer and subject."""


INITIAL: User | None = None

# --- decide


def decide(state: User | None, command: UserCommand) -> Sequence[UserEvent]:
    """Return the events that a command leads to.

    Raises NameInvalid, ValueInvalid, AlreadyExists, NotFound, StateConflict.
    """
    if isinstance(command, CreateUser):
        return _create(state, command)
    if state is None:
        raise NotFound("there is no such user; GET /users lists them")
    match command:
        case ChangeUser():
            return _change(state, command)
        case GiveMembership():
            wished = {**state.tenants, command.tenant: command.membership}
            return _memberships(state.name, state.tenants, wished, frozenset(wished), pointer="/membership")
        case EndMembership():
            if command.tenant not in state.tenants:
                raise NotFound(f"{state.name} does not belong to {command.tenant}")
            return [MembershipEnded(user=state.name, tenant=command.tenant)]
        case SetPassword():
            return [PasswordSet(user=state.name)]
        case IssueToken():
            return [_issue(state, command)]
        case RevokeToken():
            if command.token not in state.tokens:
                raise NotFound(f"{state.name} has no token {command.token!r}")
            return [TokenRevoked(user=state.name, token=command.token)]
        case LinkIdentity():
            return _link(state, command)
        case UnlinkIdentity():
            return [] if state.identity is None else [IdentityUnlinked(user=state.name)]


def _create(state: User | None, command: CreateUser) -> list[UserEvent]:
    check_name(command.user, "user")
    if state is not None or command.user == ADMIN_NAME:
        raise AlreadyExists(f"user {command.user!r} already exists", TAKEN)
    if command.users >= MOST_USERS:
        raise StateConflict(f"there are {MOST_USERS} users already, which is the limit")
    role = _one_of(Role, command.role, "/role")
    memberships = _memberships(command.user, {}, command.tenants, command.known_tenants)
    disabled = [UserChanged(user=command.user, role=role, disabled=True)] if command.disabled else []
    return [UserCreated(user=command.user, role=role), *disabled, *memberships]


def _change(state: User, command: ChangeUser) -> list[UserEvent]:
    role = _one_of(Role, state.role if command.role is None else command.role, "/role")
    disabled = state.disabled if command.disabled is None else command.disabled
    found: list[UserEvent] = []
    if (role, disabled) != (state.role, state.disabled):
        found.append(UserChanged(user=state.name, role=role, disabled=disabled))
    if command.tenants is not None:
        found += _memberships(state.name, state.tenants, command.tenants, command.known_tenants)
    return found


def _memberships(
    user: str, present: Mapping[str, str], wished: Mapping[str, str], known: frozenset[str], pointer: str = ""
) -> list[UserEvent]:
    """Return the events that lead from the present memberships to the wished ones.

    `pointer` overrides error pointers.
    """
    if len(wished) > MOST_TENANTS:
        raise ValueInvalid(
            f"a user belongs to at most {MOST_TENANTS} tenants", (FieldError("/tenants", "too many"),)
        )
    found: list[UserEvent] = []
    for tenant, membership in sorted(wished.items()):
        if tenant not in known:
            detail = f"there is no tenant {tenant[:60]!r}"
            raise ValueInvalid(detail, (FieldError("/tenants", detail),))
        if present.get(tenant) != membership:
            given = _one_of(Membership, membership, pointer or f"/tenants/{tenant}")
            found.append(MembershipGiven(user=user, tenant=tenant, membership=given))
    ended = sorted(set(present) - set(wished))
    return [*found, *(MembershipEnded(user=user, tenant=tenant) for tenant in ended)]


def _issue(state: User, command: IssueToken) -> TokenIssued:
    check_name(command.token, "token")
    if state.disabled:
        raise StateConflict(f"{state.name} is disabled, so a token could not be used; enable the user first")
    live = {name for name, end in state.tokens.items() if end is None or end > command.now}
    if command.token in live:
        raise AlreadyExists(f"{state.name} has a token {command.token!r} already; revoke it first", TAKEN)
    if len(live) >= MOST_TOKENS:
        raise StateConflict(f"{state.name} has {MOST_TOKENS} tokens, which is the limit; revoke one first")
    if command.expires_at is not None:
        days = (command.expires_at - command.now).days
        refuse(range_errors((("expires_in_days", days, 1, LONGEST_TOKEN_DAYS),)))
    end = None if command.expires_at is None else command.expires_at.isoformat()
    return TokenIssued(user=state.name, token=command.token, expires_at=end)


def _link(state: User, command: LinkIdentity) -> list[UserEvent]:
    if not 0 < len(command.subject) <= LONGEST_SUBJECT or not command.subject.isprintable():
        detail = f"a subject has 1 to {LONGEST_SUBJECT} printable characters"
        raise ValueInvalid(detail, (FieldError("/subject", detail),))
    if state.identity == (command.issuer, command.subject):
        return []
    if command.linked_to is not None:
        raise AlreadyExists(f"this identity is linked to {command.linked_to}; unlink it there first", TAKEN)
    return [IdentityLinked(user=state.name, issuer=command.issuer, subject=command.subject)]


def _one_of(words: type[W], word: str, pointer: str) -> str:
    if word not in set(words):
        detail = f"must be one of {', '.join(words)}, not {word[:60]!r}"
        raise ValueInvalid(detail, (FieldError(pointer, detail),))
    return str(word)


# --- evolve


def evolve(state: User | None, event: Event) -> User | None:
    """Return the state after an event; an event that does not apply leaves the state unchanged."""
    if isinstance(event, UserCreated):
        return User(name=event.user, role=event.role)
    if state is None:
        return None
    match event:
        case UserChanged():
            return replace(state, role=event.role, disabled=event.disabled)
        case MembershipGiven():
            return replace(state, tenants={**state.tenants, event.tenant: event.membership})
        case MembershipEnded():
            return replace(state, tenants=_without(state.tenants, event.tenant))
        case TokenIssued():
            return replace(state, tokens={**state.tokens, event.token: end_of(event)})
        case TokenRevoked():
            return replace(state, tokens=_without(state.tokens, event.token))
        case IdentityLinked():
            return replace(state, identity=(event.issuer, event.subject))
        case IdentityUnlinked():
            return replace(state, identity=None)
        case _:
            return state


def end_of(event: TokenIssued) -> datetime | None:
    """Return when a token expires; None if it never does."""
    return None if event.expires_at is None else datetime.fromisoformat(event.expires_at)


def _without(present: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in present.items() if key != name}
