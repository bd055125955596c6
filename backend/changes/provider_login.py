"""What a login by an OpenID provider changes: a user the first time, later what its groups give it."""

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
from backend.queries.access.login import By, end_sessions
from backend.queries.access.users import count_users, find_user, get_user, user_of_identity
from backend.queries.tenants.tenants import known_tenants

ACTOR = "provider:oidc"
"""Who changes users by what the provider says; no user can be called so."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Who came from where, and what its groups give it."""

    issuer: str
    person: Person
    granted: Granted


def arrive(dispatcher: Dispatcher, arrival: Arrival, request_id: str, time: datetime) -> str:
    """The user that this is; made, or given what its groups give, in one transaction.

    Who is kept out loses what groups gave it, and the sessions that the provider opened, before it is refused.
    Raises NotAllowed for who may not log in, or whose name is somebody else's; the domain's errors.
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
    connection: Connection, arrival: Arrival
) -> tuple[str, Sequence[CreateUser | LinkIdentity | ChangeUser]]:
    granted, who = arrival.granted, arrival.person
    known = known_tenants(connection, granted.tenants)
    user = user_of_identity(connection, arrival.issuer, who.subject)
    if user is not None:
        row = find_user(connection, user)
        if row.disabled:
            raise NotAllowed(f"the user {user} is disabled here")
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


def _lost(connection: Connection, arrival: Arrival) -> tuple[str, Sequence[ChangeUser]]:
    """What the provider takes away from who is kept out."""
    user = user_of_identity(connection, arrival.issuer, arrival.person.subject)
    if user is None:
        raise _kept_out()
    end_sessions(connection, user, by=By.PROVIDER)
    return user, [_change(arrival.granted, find_user(connection, user).tenants, frozenset())]


def _change(granted: Granted, present: Mapping[str, str], known: frozenset[str]) -> ChangeUser:
    memberships = granted.memberships(present, known)
    return ChangeUser(role=granted.role, tenants=memberships, known_tenants=known | frozenset(present))


def _kept_out() -> NotAllowed:
    return NotAllowed("neither your groups nor your verified e-mail address let you in here")


def _new_name(connection: Connection, who: Person) -> str:
    """What a new user is called; never somebody who is here already: names can be chosen at many providers."""
    ask = f"An admin can link a user to you: your subject is {who.subject}"
    if not who.admitted:
        raise NotAllowed(f"no user here is linked to you. {ask}")
    if who.name is None:
        raise NotAllowed(f"the provider gives you no name that a user can have here. {ask}")
    if who.name == ADMIN_NAME or get_user(connection, who.name) is not None:
        raise NotAllowed(f"there is a user {who.name} here who is not linked to you. {ask}")
    return who.name
