"""The tables of users, and of one user's tokens."""

from __future__ import annotations

from backend.queries.access.users import TokenRow, UserRow
from backend.web.tables.table import Column, Table

USERS = Table[UserRow](
    "users",
    "users",
    (
        Column("name", "Name", lambda each: each.name),
        Column("role", "Role", lambda each: each.role),
        Column(
            "tenants",
            "Tenants",
            lambda each: len(each.tenants),
            lambda each: " ".join(f"{tenant} ({membership})" for tenant, membership in each.tenants.items()),
        ),
        Column("password", "Password", lambda each: "set" if each.has_password else None),
        Column("state", "State", lambda each: "disabled" if each.disabled else "enabled"),
    ),
    sort="name",
    within="users-part",
)
TOKENS = Table[TokenRow](
    "tokens",
    "tokens",
    (
        Column("name", "Name", lambda each: each.name),
        Column("issued", "Issued", lambda each: each.issued_at, time=True),
        Column("expires", "Expires", lambda each: each.expires_at, time=True),
    ),
    sort="name",
    within="tokens-part",
)
