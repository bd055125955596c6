"""The form that issues a token, on the Account page and on a user's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from backend.changes import users as changes
from backend.domain.errors import ValueInvalid
from backend.queries import secrets
from backend.web.asked import Asked
from backend.web.forms import Fields


def issue_from_form(asked: Asked, user: str, fields: Fields) -> str:
    """The new token, which can be shown now and never again. Raises the domain's errors."""
    days = fields.get("days", "").strip()
    if days and not (days.isascii() and days.isdigit() and len(days) < 6):
        raise ValueInvalid("days are a whole number; without them a token lasts until it is revoked")
    secret, now = secrets.new_token(), datetime.now(UTC)
    end = now + timedelta(days=int(days)) if days else None
    asked.carry_out(changes.issue_token(user, fields.get("token", ""), secret, now, end))
    return secret
