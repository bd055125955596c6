"""A repeated request with the same Idempotency-Key gets the first answer and adds no event."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from backend.dispatch import Answer, Decider, Dispatcher, IdempotencyKey
from backend.domain.base.errors import ValueInvalid
from backend.eventlog.faults import IdempotencyKeyReused
from backend.eventlog.idempotency import KEEP
from backend.eventlog.recorded import Metadata
from backend.queries.base import events as queries
from tests.support.database.sample_events import METADATA, TIME, Pay, decide, evolve, registry

PURSE = Decider(0, decide, evolve)
KEY = IdempotencyKey("key-1", "digest-1")


@pytest.fixture
def dispatcher(database):
    return Dispatcher(database.engine, registry(), ())


def pay(dispatcher, amount=1, key=KEY, metadata=METADATA, time=TIME, **kwargs) -> Answer:
    count = next(_answers)
    return dispatcher.execute(
        PURSE,
        "purse",
        Pay(amount),
        metadata=metadata,
        time=time,
        idempotency=key,
        answer=lambda _, outcome: Answer(
            201, {"z": 1e16, "answer": count, "version": outcome.version, "a": "ü"}, {"ETag": f'"{count}"'}
        ),
        **kwargs,
    )


_answers = itertools.count()


def count_events(database) -> int:
    with database.engine.connect() as connection:
        return queries.head(connection).position


def test_a_repeat_returns_the_first_answer(dispatcher, database):
    first = pay(dispatcher)
    repeated = pay(dispatcher)
    assert repeated == first
    assert list(repeated.body) == list(first.body)
    assert count_events(database) == 1
    assert dispatcher.recall(METADATA.actor, KEY) == first


def test_another_request_with_the_key_is_refused(dispatcher, database):
    pay(dispatcher)
    with pytest.raises(IdempotencyKeyReused):
        pay(dispatcher, key=IdempotencyKey(KEY.key, "digest-2"))
    with pytest.raises(IdempotencyKeyReused):
        dispatcher.recall(METADATA.actor, IdempotencyKey(KEY.key, "digest-2"))
    assert count_events(database) == 1


def test_a_key_belongs_to_its_actor(dispatcher, database):
    first = pay(dispatcher)
    other = pay(dispatcher, metadata=Metadata("somebody else", "r"))
    assert other != first
    assert count_events(database) == 2


def test_what_failed_may_be_tried_again_with_its_key(dispatcher, database):
    with pytest.raises(ValueInvalid):
        pay(dispatcher, amount=-1)
    assert dispatcher.recall(METADATA.actor, KEY) is None
    pay(dispatcher)
    assert count_events(database) == 1


def test_a_dry_run_keeps_no_answer(dispatcher, database):
    pay(dispatcher, dry_run=True)
    assert dispatcher.recall(METADATA.actor, KEY) is None
    assert pay(dispatcher).body["version"] == 1


def test_a_command_that_changed_nothing_is_remembered_too(dispatcher, database):
    first = pay(dispatcher, amount=0)
    assert pay(dispatcher, amount=5) == first
    assert count_events(database) == 0


def test_of_many_at_once_one_appends_and_all_get_its_answer(dispatcher, database):
    others = [Dispatcher(database.engine, registry(), ()) for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda n: pay(others[n % 4]), range(24)))
    assert count_events(database) == 1
    assert all(answer == answers[0] for answer in answers)


def test_answers_are_forgotten_after_their_time(dispatcher, database):
    pay(dispatcher)
    pay(dispatcher, key=IdempotencyKey("key-2", "d"), time=TIME + KEEP)
    assert dispatcher.recall(METADATA.actor, KEY) is not None
    pay(dispatcher, key=IdempotencyKey("key-3", "d"), time=TIME + KEEP + timedelta(seconds=1))
    assert dispatcher.recall(METADATA.actor, KEY) is None


def test_an_answer_that_cannot_be_kept_is_a_mistake_that_saves_nothing(dispatcher, database):
    with pytest.raises(TypeError):
        dispatcher.execute(
            PURSE, "purse", Pay(1), metadata=METADATA, time=TIME, idempotency=KEY, answer=lambda *_: "text"
        )
    assert count_events(database) == 0
