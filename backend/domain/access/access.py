"""Permissions: a table of roles, a table of memberships, and `may`, the one check that every request passes.

A user has one role, which holds for the whole estate, and memberships, each of which holds within one tenant.
Whatever either of them allows is allowed. A tenant that the caller has nothing to do with does not exist for the
caller: `refusal` gives the same answer for another's tenant as for a tenant that does not exist
(docs/access.md, "What a tenant's user sees").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.domain.base.errors import DomainError, NotAllowed, NotFound

ADMIN_NAME = "admin"
"""Name of the administrator who uses the token from the settings; no user can have this name."""


class Role(StrEnum):
    """Role of a user in the whole estate."""

    TENANT = "tenant"
    """No permissions besides those of its memberships."""
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Membership(StrEnum):
    """Membership of a user in one tenant."""

    MEMBER = "member"
    OWNER = "owner"


class Action(StrEnum):
    """Permission that a request needs; every route declares one."""

    OWN_ACCOUNT = "own-account"
    """See the own account; manage its tokens, password and login links."""
    READ_ESTATE = "read-estate"
    """Read clusters, trees, distributors, operations, losses, users and the whole event log. Secrets are never
    shown."""
    CHANGE_ESTATE = "change-estate"
    """Change clusters, trees, targets, distributors; adopt topics, replay dead letters, rebuild projections;
    create tenants."""
    READ_TENANT = "read-tenant"
    """Read a tenant and all that is in it, the traces of its records, the offsets of its groups, and its events.
    """
    READ_MESSAGES = "messages:read"
    """Read keys, values and headers of the records in a tenant's streams; each request is in the audit."""
    PRODUCE_MESSAGES = "messages:write"
    """Produce single messages to a tenant's streams; each is in the event log."""
    DECLARE_STREAMS = "declare-streams"
    """Declare and change streams of a tenant, and applications, which request access to streams."""
    MANAGE_TENANT = "manage-tenant"
    """Manage a tenant's instances and environments; delete its streams, reset its groups' offsets; issue passwords
    of its applications, which use what these were granted."""
    DECIDE_ACCESS = "decide-access"
    """Decide which applications, of any tenant, may produce to a tenant's streams and consume from them."""
    MANAGE_MEMBERS = "manage-members"
    """Manage the members of a tenant."""
    MANAGE_USERS = "manage-users"
    """Manage users, their roles, tokens and passwords."""
    MANAGE_WEBHOOKS = "manage-webhooks"
    """Manage webhooks and their signing secrets: this takes events out of the estate, and makes the control plane
    call an address."""


ROLES: Mapping[Role, frozenset[Action]] = {
    Role.TENANT: frozenset({Action.OWN_ACCOUNT}),
    Role.VIEWER: frozenset({Action.OWN_ACCOUNT, Action.READ_ESTATE, Action.READ_TENANT}),
    # Also within tenants, members aside: operators apply whole files, and adopting topics declares streams.
    # Viewers read no messages: records may hold personal data.
    Role.OPERATOR: frozenset(Action) - {Action.MANAGE_MEMBERS, Action.MANAGE_USERS, Action.MANAGE_WEBHOOKS},
    Role.ADMIN: frozenset(Action),
}
MEMBERSHIPS: Mapping[Membership, frozenset[Action]] = {
    Membership.MEMBER: frozenset({Action.READ_TENANT, Action.READ_MESSAGES, Action.DECLARE_STREAMS}),
    Membership.OWNER: frozenset(
        {
            Action.READ_TENANT,
            Action.READ_MESSAGES,
            Action.PRODUCE_MESSAGES,
            Action.DECLARE_STREAMS,
            Action.MANAGE_TENANT,
            Action.DECIDE_ACCESS,
            Action.MANAGE_MEMBERS,
        }
    ),
}


@dataclass(frozen=True)
class Provenance:
    """Origin of a request: the caller's credential, the client's address, and its user agent."""

    means: str
    """`token <name>`, `session by <how it began>`, `token of the settings`; empty for an anonymous request."""
    address: str
    agent: str


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Authenticated sender of a request.

    `tenants`: tenant -> membership. `token`, `issued`: the API token that was presented, if any; `session`: how
    the session began that the request belongs to, if any.
    """

    name: str
    role: Role
    tenants: Mapping[str, Membership] = field(default_factory=dict)
    token: str | None = None
    issued: int | None = None
    session: str | None = None

    @property
    def means(self) -> str:
        """Return the credential by which the caller was authenticated, in words."""
        if self.session is not None:
            return f"session by {self.session}"
        return "token of the settings" if self.token is None else f"token {self.token}"

    def tenants_for(self, action: Action) -> frozenset[str] | None:
        """Return the tenants in which the caller may do this; None for all tenants."""
        if action in ROLES[self.role]:
            return None
        return frozenset(
            tenant for tenant, membership in self.tenants.items() if action in MEMBERSHIPS[membership]
        )


ADMIN = Caller(name=ADMIN_NAME, role=Role.ADMIN)


def may(caller: Caller, action: Action, tenant: str | None = None) -> bool:
    """Tell whether the caller may do this: everywhere if `tenant` is None, else in that tenant."""
    if action in ROLES[caller.role]:
        return True
    membership = caller.tenants.get(tenant) if tenant is not None else None
    return membership is not None and action in MEMBERSHIPS[membership]


def may_somewhere(caller: Caller, action: Action) -> bool:
    """Tell whether the caller may do this at all, be it in one tenant only."""
    return caller.tenants_for(action) != frozenset()


def tenants_read(caller: Caller) -> frozenset[str] | None:
    """Return the tenants whose events the caller may read; None for all events."""
    return None if may(caller, Action.READ_ESTATE) else caller.tenants_for(Action.READ_TENANT)


def refusal(caller: Caller, action: Action, tenant: str | None = None) -> DomainError | None:
    """Return the error for a caller without permission: NotAllowed, or NotFound for a tenant hidden from it.

    Returns None if the caller may do this.
    """
    if may(caller, action, tenant):
        return None
    if tenant is not None and not may(caller, Action.READ_TENANT, tenant):
        return no_tenant(tenant)
    return NotAllowed(f"this needs {action}, which {_allowed_roles(action, tenant)}; {_roles_of(caller, tenant)}")


def no_tenant(tenant: str) -> NotFound:
    """Return the one error for a tenant that does not exist and for one that is hidden from the caller."""
    return NotFound(f"there is no tenant {tenant[:300]!r}")


def _allowed_roles(action: Action, tenant: str | None) -> str:
    roles = [str(role) for role, actions in ROLES.items() if action in actions]
    within = "a tenant" if tenant is None else tenant
    members = [f"{membership} of {within}" for membership, actions in MEMBERSHIPS.items() if action in actions]
    return f"is for: {', '.join([*roles, *members])}"


def _roles_of(caller: Caller, tenant: str | None) -> str:
    membership = caller.tenants.get(tenant) if tenant is not None else None
    also = f" and {membership} of {tenant}" if membership else ""
    return f"{caller.name} is {caller.role}{also}"
