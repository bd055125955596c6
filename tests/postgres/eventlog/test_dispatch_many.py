"""Several commands in one transaction: in order, each on the state left by those before, all or none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from backend.dispatch import Decider, Directed, Dispatcher
from backend.domain.base.errors import ValueInvalid
from backend.eventlog.recorded import Metadata
from backend.queries.base import events as queries
from tests.support.database import sample_projection
from tests.support.database.sample_events import METADATA, TIME, Pay, decide, evolve, paid, registry
from tests.support.database.sample_projection import BALANCES

PURSE = Decider(0, decide, evolve)


@pytest.fixture
def dispatcher(database):
    sample_projection.create_tables(database.owner)
    return Dispatcher(database.engine, registry(), [BALANCES])


def pay(stream: str, amount: int, decider=PURSE, metadata: Metadata = METADATA) -> Directed:
    return Directed(decider, stream, Pay(amount), metadata)


def stored(database) -> list:
    with database.engine.connect() as connection:
        return queries.list_events(connection, limit=1000)


def balances(database) -> dict[str, int]:
    with database.engine.connect() as connection:
        return sample_projection.read(connection)


def test_events_get_dense_positions_in_the_order_of_the_commands(dispatcher, database):
    outcomes = dispatcher.execute_many(
        [pay("a", 1), pay("b", 2), pay("a", 3), pay("c", 0), pay("b", 4)], time=TIME
    )
    assert [(e.position, e.stream, e.version, e.data["amount"]) for e in stored(database)] == [
        (1, "a", 1, 1),
        (2, "b", 1, 2),
        (3, "a", 2, 3),
        (4, "b", 2, 4),
    ]
    assert [(o.stream, o.version, [e.position for e in o.events]) for o in outcomes] == [
        ("a", 1, [1]),
        ("b", 1, [2]),
        ("a", 2, [3]),
        ("c", 0, []),
        ("b", 2, [4]),
    ]
    assert balances(database) == {"a": 4, "b": 6}
    with database.engine.connect() as connection:
        assert queries.verification(connection).ok


def test_each_command_is_decided_on_what_those_before_it_left(dispatcher):
    seen = []
    observer = Decider(0, lambda balance, command: seen.append(balance) or decide(balance, command), evolve)
    dispatcher.execute_many([pay("a", 1, observer)], time=TIME)
    dispatcher.execute_many([pay("a", n, observer) for n in (2, 3, 4)], time=TIME)
    dispatcher.execute_many([pay("a", 5, observer)], time=TIME)
    assert seen == [0, 1, 3, 6, 10]


def test_a_command_may_decide_several_events(dispatcher, database):
    twice = Decider(0, lambda _, command: [paid(command.amount)] * 2, evolve)
    first, second = dispatcher.execute_many([pay("a", 1, twice), pay("b", 2, twice)], time=TIME)
    assert ([e.position for e in first.events], [e.position for e in second.events]) == ([1, 2], [3, 4])
    assert balances(database) == {"a": 2, "b": 4}


@pytest.mark.parametrize("place", range(3))
def test_if_one_is_refused_none_is_saved(dispatcher, database, place):
    commands = [pay("a", 1), pay("b", 1)]
    commands.insert(place, pay("c", -1))
    with pytest.raises(ValueInvalid):
        dispatcher.execute_many(commands, time=TIME)
    assert stored(database) == []
    assert balances(database) == {}
    assert dispatcher.execute_many([pay("a", 7)], time=TIME)[0].version == 1


def test_a_projection_that_fails_takes_all_with_it(database):
    def fail(*_):
        raise ZeroDivisionError

    broken = Dispatcher(database.engine, registry(), [replace(BALANCES, apply=fail)])
    with pytest.raises(ZeroDivisionError):
        broken.execute_many([pay("a", 1), pay("b", 2)], time=TIME)
    assert stored(database) == []


def test_each_event_carries_its_commands_metadata(dispatcher, database):
    mine, yours = Metadata("me", "1"), Metadata("you", "2", "because")
    dispatcher.execute_many([pay("a", 1, metadata=mine), pay("a", 2, metadata=yours)], time=TIME)
    assert [(e.metadata, e.time) for e in stored(database)] == [(mine, TIME), (yours, TIME)]


def test_nothing_to_do_is_no_error(dispatcher, database):
    assert dispatcher.execute_many([], time=TIME) == []
    assert [o.events for o in dispatcher.execute_many([pay("a", 0)], time=TIME)] == [[]]
    assert stored(database) == []


def test_many_at_once_and_one_by_one_go_side_by_side(dispatcher, database):
    """Eight threads work on three purses: the events of each stay together, and nothing is lost."""

    def at_once(number: int) -> list[int]:
        outcomes = dispatcher.execute_many([pay(f"p{n % 3}", 1) for n in range(number, number + 5)], time=TIME)
        return [event.position for outcome in outcomes for event in outcome.events]

    def one(number: int) -> list[int]:
        command = pay(f"p{number % 3}", 1)
        return dispatcher.execute(
            PURSE,
            command.stream,
            command.command,
            metadata=METADATA,
            time=TIME,
            answer=lambda _, outcome: [event.position for event in outcome.events],
        )

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(at_once, range(12)))
        alone = [pool.submit(one, number) for number in range(6)]
        together += list(pool.map(at_once, range(12)))
    for positions in together:
        assert positions == list(range(positions[0], positions[0] + 5))
    taken = [position for positions in together for position in positions]
    taken += [position for each in alone for position in each.result()]
    assert sorted(taken) == list(range(1, 24 * 5 + 7))
    assert sum(balances(database).values()) == 24 * 5 + 6
