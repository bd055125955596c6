"""Changes made by a login at an OpenID provider: a new user at first, later the roles from its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from backend.changes.users import event_stream
from backend.deciders import USER
from backend.dispatch import Directed, Dispatcher
from backend.domain.access.access import ADMIN_NAME, Role
from backend.domain.access.provider_login import Granted, Person
from backend.domain.access.user import ChangeUser, CreateUser, LinkIdentity
from backend.domain.base.errors import NotAllowed
from backend.eventlog.recorded import Metadata
from backend.queries.access.login import LoginMethod, end_sessions
from backend.queries.access.users import count_users, find_user, get_user, user_of_identity
from backend.queries.tenants.tenants import known_tenants

ACTOR = "provider:oidc"
"""Actor of changes that follow from the provider's answer; no user can have this name."""


@dataclass(frozen=True, kw_only=True)
class ProviderLogin:
    """A login at the provider: the person, the client it came from, and the roles that its groups give."""

    issuer: str
    person: Person
    granted: Granted


def log_in(dispatcher: Dispatcher, arrival: ProviderLogin, request_id: str, time: datetime) -> str:
    """Return the user of this login; create or update the user in one transaction.

    A refused user first loses the roles that its groups gave, and the sessions that the provider opened. Raises
    NotAllowed if the person may not log in or the name belongs to another user; the domain's errors.
    """
    found: list[str] = []
    metadata = Metadata(actor=ACTOR, request_id=request_id)
    kept_out = arrival.person.kept_out

    def build(connection: Connection) -> Sequence[Directed]:
        user, commands = _lost(connection, arrival) if kept_out else _commands(connection, arrival)
        found.append(user)
        return [Directed(USER, event_stream(user), command, metadata) for command in commands]

    dispatcher.execute_many(build, time=time)
    if kept_out:
        raise _kept_out()
    return found[-1]


def _commands(
    connection: Connection, arrival: ProviderLogin
) -> tuple[str, Sequence[CreateUser | LinkIdentity | ChangeUser]]:
    granted, who = arrival.granted, arrival.person
    known = known_tenants(connection, granted.tenants)
    user = user_of_identity(connection, arrival.issuer, who.subject)
    if user is not None:
        row = find_user(connection, user)
        if row.disabled:
            raise NotAllowed(f"user {user} is disabled")
        return user, [_change(granted, row.tenants, known)]
    name = _new_name(connection, who)
    memberships = granted.memberships({}, known)
    return name, [
        CreateUser(
            user=name,
            role=granted.role or Role.TENANT,
            tenants=memberships,
            known_tenants=known,
            users=count_users(connection),
        ),
        LinkIdentity(issuer=arrival.issuer, subject=who.subject),
    ]


def _lost(connection: Connection, arrival: ProviderLogin) -> tuple[str, Sequence[ChangeUser]]:
    """Return the user of a refused login and the commands that revoke what the provider gave."""
    user = user_of_identity(connection, arrival.issuer, arrival.person.subject)
    if user is None:
        raise _kept_out()
    end_sessions(connection, user, by=LoginMethod.PROVIDER)
    return user, [_change(arrival.granted, find_user(connection, user).tenants, frozenset())]


def _change(granted: Granted, present: Mapping[str, str], known: frozenset[str]) -> ChangeUser:
    memberships = granted.memberships(present, known)
    return ChangeUser(role=granted.role, tenants=memberships, known_tenants=known | frozenset(present))


def _kept_out() -> NotAllowed:
    return NotAllowed("neither your groups nor your verified email address are allowed here")


def _new_name(connection: Connection, who: Person) -> str:
    """Return the name of a new user, which must be unused: names can be chosen freely at many providers."""
    ask = f"Ask an admin to link a user to you: your subject is {who.subject}"
    if not who.admitted:
        raise NotAllowed(f"no user here is linked to you. {ask}")
    if who.name is None:
        raise NotAllowed(f"the provider's name for you cannot be a user name here. {ask}")
    if who.name == ADMIN_NAME or get_user(connection, who.name) is not None:
        raise NotAllowed(f"the user {who.name} exists, but is not linked to you. {ask}")
    return who.name
