"""Who logs in by an OpenID provider: whether it is let in, what it is called here, and what its groups give it.

All of it is said by claims, which the provider signs (`backend/oidc`), and by the settings (`TREELINE_OIDC_*`):

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
    """What the settings say. `grants`: group -> roles, and memberships as `tenant/membership`."""

    user_claim: str = "preferred_username"
    groups_claim: str = "groups"
    grants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    domains: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def check(self) -> None:
        """Raise ValueInvalid for a grant that is none."""
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
    """Who the provider says has logged in. `name`: what it would be called here; None if nobody can be."""

    subject: str
    name: str | None
    groups: frozenset[str]
    """Those that give it something: none of who is kept out."""
    admitted: bool
    """By domain or group; without such rules nobody is: then only who was linked by an admin gets in."""
    kept_out: bool
    """There are such rules, and they do not let it in."""


@dataclass(frozen=True, kw_only=True)
class Granted:
    """What groups give. `role`: None if they give nobody one. `tenants`: those that groups rule -> the
    membership, None for none."""

    role: str | None
    tenants: Mapping[str, str | None]

    def memberships(self, present: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
        """All that a user has after it: where groups do not rule, what it has; no tenant that there is not."""
        kept = {tenant: membership for tenant, membership in present.items() if tenant not in self.tenants}
        given = {t: membership for t, membership in self.tenants.items() if membership is not None and t in known}
        return {**kept, **given}


def person(claims: Mapping[str, Any], rules: Rules) -> Person:
    """Who has logged in. Raises NotAllowed for one whose groups are not told."""
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
    """What these groups give: of several roles and memberships the one that may most."""
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
        # Of who is in very many groups some providers only say where to ask for them: that is not "in none".
        raise NotAllowed("your provider does not tell your groups, as they are too many; make it filter them")
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(group for group in listed if isinstance(group, str))


def _domain(claims: Mapping[str, Any]) -> str:
    """Of an e-mail address that the provider has verified; anybody may claim any other."""
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return ""
    return email.rpartition("@")[2].lower()


def _name(claims: Mapping[str, Any], rules: Rules) -> str | None:
    """The claim in lower case; of an address what stands before the @."""
    value = claims.get(rules.user_claim)
    name = value.partition("@")[0].lower() if isinstance(value, str) else ""
    return name if is_name(name) else None
