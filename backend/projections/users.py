"""Projection of users, with their memberships, tokens and linked identities. No secrets."""

from __future__ import annotations

import sqlalchemy as sa

from backend.domain.access.user import (
    IdentityLinked,
    IdentityUnlinked,
    MembershipEnded,
    MembershipGiven,
    PasswordSet,
    TokenIssued,
    TokenRevoked,
    UserChanged,
    UserCreated,
    end_of,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, replace, temporal_table

users = temporal_table(
    "users",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("has_password", sa.Boolean, nullable=False),
    # Version of the event that last described the user or its memberships.
    sa.Column("version", sa.BigInteger, nullable=False),
)
memberships = temporal_table(
    "memberships",
    METADATA,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("membership", sa.Text, nullable=False),
)
sa.Index("memberships_tenant", memberships.c.tenant)
api_tokens = temporal_table(
    "api_tokens",
    METADATA,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    # Version of the event that issued it: a token with a reused name is another token.
    sa.Column("issued", sa.BigInteger, nullable=False),
    sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
)
# Issuer and subject at an OpenID provider -> the user that they log in as.
identities = temporal_table(
    "identities",
    METADATA,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("issuer", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
)
sa.Index("identities_subject", identities.c.subject, identities.c.issuer)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    position, version = recorded.position, recorded.version
    match recorded.event:
        case UserCreated() as event:
            values = {"role": event.role, "disabled": False, "has_password": False, "version": version}
            replace(rows, users, {"name": event.user}, values, position)
        case UserChanged() as event:
            values = {"role": event.role, "disabled": event.disabled, "version": version}
            change(rows, users, {"name": event.user}, values, position)
        case MembershipGiven() as event:
            key = {"user": event.user, "tenant": event.tenant}
            replace(rows, memberships, key, {"membership": event.membership}, position)
            change(rows, users, {"name": event.user}, {"version": version}, position)
        case MembershipEnded() as event:
            replace(rows, memberships, {"user": event.user, "tenant": event.tenant}, None, position)
            change(rows, users, {"name": event.user}, {"version": version}, position)
        case PasswordSet() as event:
            change(rows, users, {"name": event.user}, {"has_password": True}, position)
        case TokenIssued() as event:
            issued = {"issued": version, "issued_at": recorded.time, "expires_at": end_of(event)}
            replace(rows, api_tokens, {"user": event.user, "name": event.token}, issued, position)
        case TokenRevoked() as event:
            replace(rows, api_tokens, {"user": event.user, "name": event.token}, None, position)
        case IdentityLinked() as event:
            linked = {"issuer": event.issuer, "subject": event.subject}
            replace(rows, identities, {"user": event.user}, linked, position)
        case IdentityUnlinked() as event:
            replace(rows, identities, {"user": event.user}, None, position)


PROJECTION = Projection(
    name="users",
    events=frozenset(
        {UserCreated, UserChanged, MembershipGiven, MembershipEnded, PasswordSet, TokenIssued, TokenRevoked}
        | {IdentityLinked, IdentityUnlinked}
    ),
    tables=(users, memberships, api_tokens, identities),
    apply=_apply,
)
