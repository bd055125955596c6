"""Action of forms whose next page shows a new secret once: a token, a program's password, a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.change import Change
from backend.dispatch import Outcome
from backend.web.forms.change_request import ChangeRequest
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
    page: Callable[[ChangeRequest, Fields, str], Response]
    """Returns the page that shows the secret."""
    place: Callable[[Fields], str]
    """Returns where a repeated submission leads: its secret was shown already."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Return the effect by a dry run; its secret is discarded."""
        return change_request.dry_run(
            self.change(given, self.new()), lambda connection, outcome: self.effect(connection, outcome, given)
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Carry it out and show the secret."""
        secret = self.new()
        if not change_request.carry_out_once(self.change(given, secret), once, given):
            return RedirectResponse(self.place(given), 303)
        return self.page(change_request, given, secret)
