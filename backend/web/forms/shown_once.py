"""Action of forms whose next page shows a new secret once: a token, a program's password, a key."""

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
    """An `Act` of `form_page.py` that shows a secret."""

    new: Callable[[], str]
    """Generates the secret."""
    change: Callable[[Fields, str], Change[Any, Any]]
    effect: Callable[[Connection, Outcome, Fields], Effect]
    """Computes the effect with the change applied."""
    page: Callable[[Asked, Fields, str], Response]
    """Returns the page that shows the secret."""
    place: Callable[[Fields], str]
    """Returns where a repeated submission leads: its secret was shown already."""

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """Return the effect by a dry run; its secret is discarded."""
        return asked.try_out(
            self.change(given, self.new()), lambda connection, outcome: self.effect(connection, outcome, given)
        )

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """Carry it out and show the secret."""
        secret = self.new()
        if not asked.carry_out_once(self.change(given, secret), once, given):
            return RedirectResponse(self.place(given), 303)
        return self.page(asked, given, secret)
