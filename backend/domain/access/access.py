"""Who may do what: one table of roles and one of memberships, and `may`, which everything asks.

A user has one role, which holds for the whole estate, and memberships, each of which holds within one tenant. What
either of them allows is allowed. A tenant that the caller has nothing to do with does not exist for it: `refusal`
gives the same answer for another's tenant as for one that nobody has (design: console.md, "Access").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.domain.base.errors import DomainError, NotAllowed, NotFound

ADMIN_NAME = "admin"
"""Who comes with the token of the settings; no user can be called so."""


class Role(StrEnum):
    """What a user is for the whole estate."""

    TENANT = "tenant"
    """Nothing but what its memberships give."""
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Membership(StrEnum):
    """What a user is within one tenant."""

    MEMBER = "member"
    OWNER = "owner"


class Action(StrEnum):
    """What a request needs; every route declares one."""

    OWN_ACCOUNT = "own-account"
    """See oneself; one's own tokens, password and login links."""
    READ_ESTATE = "read-estate"
    """Clusters, trees, distributors, operations, losses, users, the whole event log. Secrets are never shown."""
    CHANGE_ESTATE = "change-estate"
    """Clusters, trees, targets, distributors, adoptions, replays, rebuilds; new tenants."""
    READ_TENANT = "read-tenant"
    """A tenant, all that is in it, its streams' records' ways, its groups' offsets, its events."""
    DECLARE_STREAMS = "declare-streams"
    """Declare and change streams of a tenant, and applications, which ask for access to streams."""
    MANAGE_TENANT = "manage-tenant"
    """A tenant's instances and environments; deleting its streams, resetting its groups' offsets; passwords of its
    applications, which open what these were granted."""
    DECIDE_ACCESS = "decide-access"
    """Which applications, of whatever tenant, may produce to a tenant's streams and consume from them."""
    MANAGE_MEMBERS = "manage-members"
    """Who belongs to a tenant."""
    MANAGE_USERS = "manage-users"
    """Users, their roles, tokens and passwords."""
    MANAGE_WEBHOOKS = "manage-webhooks"
    """Who outside is told of what happens, and signs what they are sent: it takes events out of the estate, and
    has the control plane call an address."""


ROLES: Mapping[Role, frozenset[Action]] = {
    Role.TENANT: frozenset({Action.OWN_ACCOUNT}),
    Role.VIEWER: frozenset({Action.OWN_ACCOUNT, Action.READ_ESTATE, Action.READ_TENANT}),
    # Also within tenants, members aside: operators apply whole files, and adopting topics declares streams.
    Role.OPERATOR: frozenset(Action) - {Action.MANAGE_MEMBERS, Action.MANAGE_USERS, Action.MANAGE_WEBHOOKS},
    Role.ADMIN: frozenset(Action),
}
MEMBERSHIPS: Mapping[Membership, frozenset[Action]] = {
    Membership.MEMBER: frozenset({Action.READ_TENANT, Action.DECLARE_STREAMS}),
    Membership.OWNER: frozenset(
        {
            Action.READ_TENANT,
            Action.DECLARE_STREAMS,
            Action.MANAGE_TENANT,
            Action.DECIDE_ACCESS,
            Action.MANAGE_MEMBERS,
        }
    ),
}


@dataclass(frozen=True)
class Provenance:
    """Where a request came from: by what its caller was known, its address, and what its program calls itself."""

    means: str
    """`token <name>`, `session by <how it began>`, `token of the settings`; empty for nobody who is known."""
    address: str
    agent: str


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks. `tenants`: tenant -> membership; `token`, `issued`: the token that it came with, if it was one;
    `session`: how the session that it came with began, if it was one."""

    name: str
    role: Role
    tenants: Mapping[str, Membership] = field(default_factory=dict)
    token: str | None = None
    issued: int | None = None
    session: str | None = None

    @property
    def means(self) -> str:
        """By what it was known."""
        if self.session is not None:
            return f"session by {self.session}"
        return "token of the settings" if self.token is None else f"token {self.token}"

    def tenants_for(self, action: Action) -> frozenset[str] | None:
        """The tenants in which it may do this; None for all there are."""
        if action in ROLES[self.role]:
            return None
        return frozenset(
            tenant for tenant, membership in self.tenants.items() if action in MEMBERSHIPS[membership]
        )


ADMIN = Caller(name=ADMIN_NAME, role=Role.ADMIN)


def may(caller: Caller, action: Action, tenant: str | None = None) -> bool:
    """Whether the caller may do this: everywhere if `tenant` is None, else in that tenant."""
    if action in ROLES[caller.role]:
        return True
    membership = caller.tenants.get(tenant) if tenant is not None else None
    return membership is not None and action in MEMBERSHIPS[membership]


def may_somewhere(caller: Caller, action: Action) -> bool:
    """Whether the caller may do this at all, be it in one tenant only."""
    return caller.tenants_for(action) != frozenset()


def tenants_read(caller: Caller) -> frozenset[str] | None:
    """The tenants whose events the caller may read; None for all events there are."""
    return None if may(caller, Action.READ_ESTATE) else caller.tenants_for(Action.READ_TENANT)


def refusal(caller: Caller, action: Action, tenant: str | None = None) -> DomainError | None:
    """Why the caller may not: NotAllowed, or NotFound for a tenant that it may not know of. None if it may."""
    if may(caller, action, tenant):
        return None
    if tenant is not None and not may(caller, Action.READ_TENANT, tenant):
        return no_tenant(tenant)
    return NotAllowed(f"this needs {action}, which {_who_may(action, tenant)}; {_what_is(caller, tenant)}")


def no_tenant(tenant: str) -> NotFound:
    """The one answer for a tenant that there is not, and for one that the caller may not know of."""
    return NotFound(f"there is no tenant {tenant[:300]!r}")


def _who_may(action: Action, tenant: str | None) -> str:
    roles = [str(role) for role, actions in ROLES.items() if action in actions]
    within = "a tenant" if tenant is None else tenant
    members = [f"{membership} of {within}" for membership, actions in MEMBERSHIPS.items() if action in actions]
    return f"is for: {', '.join([*roles, *members])}"


def _what_is(caller: Caller, tenant: str | None) -> str:
    membership = caller.tenants.get(tenant) if tenant is not None else None
    also = f" and {membership} of {tenant}" if membership else ""
    return f"{caller.name} is {caller.role}{also}"
