"""A change as the REST API and the console's pages ask for it alike: the command, with the facts that it needs.

What differs between the two is who is answered, and how; what is changed, and what goes with it in the same
transaction, is said here once.
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
"""Raises StaleVersion unless a thing that is at this version may be changed."""


def any_version(version: int) -> None:
    """A Match for those who change whatever is there."""


def _nothing(connection: Connection, outcome: Outcome) -> None:
    """What most changes do besides their events."""


@dataclass(frozen=True)
class Change(Generic[S, C]):
    """What is to be done, on which event stream, and by whose rules."""

    decider: Decider[S, C]
    stream: str
    build: Callable[[Connection], C]
    """Reads the facts under the append lock and makes the command of them. Raises the domain's errors."""
    also: Callable[[Connection, Outcome], None] = _nothing
    """What goes with it in its transaction: secrets, which are no events."""

    def answering(self, answer: Callable[[Connection, Outcome], A]) -> Callable[[Connection, Outcome], A]:
        """`answer`, once all that goes with the change was done."""

        def done(connection: Connection, outcome: Outcome) -> A:
            self.also(connection, outcome)
            return answer(connection, outcome)

        return done
