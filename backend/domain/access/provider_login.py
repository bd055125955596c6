"""Login through an OpenID provider: admission, the user's name here, and what the user's groups grant.

All of it follows from claims, which the provider signs (`backend/oidc`), and from the settings
(`TREELINE_OIDC_*`):

    claims --> is it admitted? --> subject, name --> role and memberships, as far as groups rule them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.domain.access.access import Membership, Role
from backend.domain.base.errors import NotAllowed, ValueInvalid
from backend.domain.names.names import is_name

EVERYBODY = "*"
_ROLES = tuple(Role)  # from the least to the most


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules from the settings. `grants`: group -> roles, and memberships as `tenant/membership`."""

    user_claim: str = "preferred_username"
    groups_claim: str = "groups"
    grants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    domains: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def check(self) -> None:
        """Raise ValueInvalid for a grant that is neither a role nor a membership."""
        for group, words in self.grants.items():
            for word in words:
                tenant, _, membership = word.partition("/")
                if word not in _ROLES and not (is_name(tenant) and membership in set(Membership)):
                    raise ValueInvalid(
                        f"group {group[:60]!r} gives {word[:60]!r}: it must be one of {', '.join(_ROLES)}, "
                        "or tenant/member or tenant/owner"
                    )


@dataclass(frozen=True, kw_only=True)
class Person:
    """Person who has logged in, by the provider's word. `name`: the user's name here; None if it cannot be one."""

    subject: str
    name: str | None
    groups: frozenset[str]
    """Groups that grant something; none for a person who is kept out."""
    admitted: bool
    """True if a domain or group admits the person. Without such rules only users linked by an admin get in."""
    kept_out: bool
    """True if there are such rules, and they do not admit the person."""


@dataclass(frozen=True, kw_only=True)
class Granted:
    """Role and memberships that groups grant.

    `role`: None if no group grants one. `tenants`: tenants ruled by groups -> the membership, None for no
    membership.
    """

    role: str | None
    tenants: Mapping[str, str | None]

    def memberships(self, present: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
        """Return a user's memberships afterwards: tenants that groups do not rule stay, unknown ones go."""
        kept = {tenant: membership for tenant, membership in present.items() if tenant not in self.tenants}
        given = {t: membership for t, membership in self.tenants.items() if membership is not None and t in known}
        return {**kept, **given}


def person(claims: Mapping[str, Any], rules: Rules) -> Person:
    """Return the person whom these claims describe. Raises NotAllowed if the claims do not list the groups."""
    groups = _groups(claims, rules)
    admitted = EVERYBODY in rules.domains or bool(groups & rules.groups) or _domain(claims) in rules.domains
    kept_out = not admitted and bool(rules.domains or rules.groups)
    return Person(
        subject=str(claims["sub"]),
        name=_name(claims, rules),
        groups=frozenset() if kept_out else groups,
        admitted=admitted,
        kept_out=kept_out,
    )


def granted(groups: frozenset[str], rules: Rules) -> Granted:
    """Return what these groups grant: of several roles or memberships, the most permissive."""
    words = {word for group, given in rules.grants.items() if group in groups for word in given}
    ruled = {word for given in rules.grants.values() for word in given}
    roles = [role for role in _ROLES if role in words]
    role = (roles or [Role.TENANT])[-1] if ruled & set(_ROLES) else None
    tenants: dict[str, str | None] = {word.partition("/")[0]: None for word in ruled if "/" in word}
    for word in sorted(words):  # "owner" comes after "member"
        tenant, _, membership = word.partition("/")
        if membership:
            tenants[tenant] = membership
    return Granted(role=role, tenants=tenants)


def _groups(claims: Mapping[str, Any], rules: Rules) -> frozenset[str]:
    found = claims.get(rules.groups_claim)
    elsewhere = claims.get("_claim_names")
    if found is None and isinstance(elsewhere, dict) and rules.groups_claim in elsewhere:
        # Some providers list too many groups only by reference ("overage" claims): that is not "in no group".
        raise NotAllowed(
            "your provider did not send your groups because there are too many; limit the groups in its token"
        )
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(group for group in listed if isinstance(group, str))


def _domain(claims: Mapping[str, Any]) -> str:
    """Return the domain of a verified e-mail address, else ''; anybody may claim an unverified one."""
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return ""
    return email.rpartition("@")[2].lower()


def _name(claims: Mapping[str, Any], rules: Rules) -> str | None:
    """Return the user's name: the claim in lower case, of an address the part before the @.

    None if it is no name.
    """
    value = claims.get(rules.user_claim)
    name = value.partition("@")[0].lower() if isinstance(value, str) else ""
    return name if is_name(name) else None
