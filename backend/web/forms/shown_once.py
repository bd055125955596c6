"""The act of forms whose next page shows a new secret, this once: a token, a password of a program, a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.change import Change
from backend.dispatch import Outcome
from backend.web.forms.asked import Asked
from backend.web.forms.effect import Effect
from backend.web.frame.forms import Fields


@dataclass(frozen=True, kw_only=True)
class ShownOnce:
    """An `Act` of `form_page.py`."""

    new: Callable[[], str]
    """Makes the secret."""
    change: Callable[[Fields, str], Change[Any, Any]]
    effect: Callable[[Connection, Outcome, Fields], Effect]
    """Sees everything as if it were done."""
    page: Callable[[Asked, Fields, str], Response]
    """Shows the secret."""
    place: Callable[[Fields], str]
    """Where a form leads to that is sent again: what it has made was shown."""

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """By a dry run; the secret of it is nobody's."""
        return asked.try_out(
            self.change(given, self.new()), lambda connection, outcome: self.effect(connection, outcome, given)
        )

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """Do it and show the secret."""
        secret = self.new()
        if not asked.carry_out_once(self.change(given, secret), once, given):
            return RedirectResponse(self.place(given), 303)
        return self.page(asked, given, secret)
