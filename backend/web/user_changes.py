"""What the pages of users and of one's own account change, by the commands that the REST API uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Request
from sqlalchemy import Connection

from backend.deciders import USER
from backend.dispatch import Outcome
from backend.domain.access import Caller
from backend.domain.errors import ValueInvalid
from backend.domain.user import IssueToken, RevokeToken, SetPassword, UserCommand, check_password
from backend.eventlog.recorded import Metadata
from backend.queries import secrets
from backend.web.forms import Fields
from backend.web.services import ConsoleServices


@dataclass(frozen=True)
class Change:
    """One request's change of one user."""

    services: ConsoleServices
    request: Request
    viewer: Caller
    user: str

    def run(
        self,
        command: UserCommand | Callable[[Connection], UserCommand],
        also: Callable[[Connection, Outcome], None] = lambda connection, outcome: None,
    ) -> None:
        """Carry a command out; `also` happens in its transaction. Raises the domain's errors."""
        self.services.dispatcher.execute(
            USER,
            f"user-{self.user}",
            command,
            metadata=Metadata(actor=self.viewer.name, request_id=self.request.state.request_id),
            time=datetime.now(UTC),
            answer=also,
        )

    def issue_token(self, fields: Fields) -> str:
        """The new token, which can be shown now and never again."""
        token, secret, now = fields.get("token", ""), secrets.new_token(), datetime.now(UTC)
        days = fields.get("days", "").strip()
        if days and not (days.isascii() and days.isdigit() and len(days) < 6):
            raise ValueInvalid("days are a whole number; without them a token lasts until it is revoked")
        end = now + timedelta(days=int(days)) if days else None
        self.run(
            IssueToken(token=token, now=now, expires_at=end),
            lambda connection, outcome: secrets.keep_token(connection, self.user, token, outcome.version, secret),
        )
        return secret

    def revoke_token(self, token: str) -> None:
        """Take a token away."""
        forget = secrets.forget_token
        self.run(RevokeToken(token=token), lambda connection, _: forget(connection, self.user, token))

    def set_password(self, password: str) -> None:
        """Set the password, which ends the user's sessions."""
        check_password(self.user, password)
        hashed = secrets.hash_password(password)
        self.run(SetPassword(), lambda connection, _: secrets.keep_password(connection, self.user, hashed))
