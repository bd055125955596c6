"""A consumer that gets another order while it opens, or before it has closed; its readers are counted here."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from treeline_client import client_state, location
from treeline_client.client_state import CONSUMER, Move, Resume, Settle, Way
from treeline_client.location import Location
from treeline_client.metrics import Counters

from tests.unit.client.test_rules import answer


class Opened:
    """Replaces a reader; opening one can take as long as the test wants."""

    made: list[Opened]
    may_open: threading.Event
    opens: threading.Event

    def __init__(self, _configuration: Any, where: Any, _owner: Any) -> None:
        Opened.opens.set()
        assert Opened.may_open.wait(30)
        self.generation, self.ended = where.generation, ""
        Opened.made.append(self)

    def commit_in_time(self) -> None:
        """Commit nothing, since nothing was read."""

    def close(self, _moving: bool) -> bool:
        self.ended = "closed, with a commit"
        return True

    def abandon(self, _subscription: object) -> None:
        self.ended = "abandoned"


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Location:
    """Return a consumer that is closed, in a hold in generation 3."""
    Opened.made, Opened.may_open, Opened.opens = [], threading.Event(), threading.Event()
    monkeypatch.setattr(location, "Reader", Opened)
    begun = client_state.begin(CONSUMER, answer(hold=True), True, time.monotonic())
    follower: Any = SimpleNamespace(state=begun, counters=Counters(), wake=lambda: None)
    configuration: Any = None
    found = Location(configuration, follower, None)
    found.carry_out(Settle(None))
    assert found.is_settled() and not Opened.made
    return found


def test_who_is_told_to_close_while_it_opens_has_not_closed(consumer: Location) -> None:
    consumer.carry_out(Resume(False))
    given: list[Any] = []
    application = threading.Thread(target=lambda: given.append(consumer.follow()))
    application.start()
    assert Opened.opens.wait(30)
    consumer.carry_out(Settle(None))
    assert not consumer.is_settled(), "a reader is about to be there"
    Opened.may_open.set()
    application.join()
    assert given == [None], "nothing is read any more"
    assert not consumer.is_settled()
    consumer.follow()
    assert consumer.is_settled() and [each.ended for each in Opened.made] == ["closed, with a commit"]


def test_who_is_still_open_when_its_clients_have_moved_commits_nothing_there(consumer: Location) -> None:
    Opened.may_open.set()
    consumer.carry_out(Resume(False))
    assert consumer.follow() is Opened.made[0] and consumer.still_in() is None
    consumer.carry_out(Move(answer(4), Way.HELD, False))
    assert consumer.still_in() == 3, "it knows of the move, and has not gone"
    assert consumer.follow() is Opened.made[1] and consumer.still_in() is None
    assert [each.ended for each in Opened.made] == ["abandoned", ""]
