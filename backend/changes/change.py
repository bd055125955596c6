"""A change as the REST API and the console's pages request it alike: the command, with the facts that it needs.

The two differ only in who gets the answer, and in its form. What is changed, and what is written with it in the
same transaction, is defined here once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection

from backend.dispatch import Decider, Outcome

S = TypeVar("S")
C = TypeVar("C")
A = TypeVar("A")

Match = Callable[[int], None]
"""Raises StaleVersion unless a resource at this version may be changed."""


def any_version(version: int) -> None:
    """Accept any version: a Match for callers that change the resource whatever its version."""


def _nothing(connection: Connection, outcome: Outcome) -> None:
    """Do nothing besides the events, as most changes do."""


@dataclass(frozen=True)
class Change(Generic[S, C]):
    """A command to build, the event stream it goes to, and that stream's decider."""

    decider: Decider[S, C]
    stream: str
    build: Callable[[Connection], C]
    """Builds the command from facts read under the append lock. Raises the domain's errors."""
    also: Callable[[Connection, Outcome], None] = _nothing
    """Further writes in the command's transaction: secrets, which must not be in events."""

    def answering(self, answer: Callable[[Connection, Outcome], A]) -> Callable[[Connection, Outcome], A]:
        """Return `answer` preceded by the change's further writes."""

        def done(connection: Connection, outcome: Outcome) -> A:
            self.also(connection, outcome)
            return answer(connection, outcome)

        return done
