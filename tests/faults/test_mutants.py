"""Distributors with one defect each, on real clusters: the checker finds each defect, and nothing else.

All run at the same time, each on its own streams in a tree of two clusters. The mutants exist only here; the
product has no switch for them.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from backend.domain.tree import routes, tree_shape
from backend.kafka.base.errors import CopyFailed
from backend.kafka.copy.session import CopySession
from backend.verification.fleet import Fleet, Member
from tests.eventually import eventually
from tests.faults.history import FLAGS, History
from tests.faults.judge import Verdict, judge, kinds, wait_until_at_rest
from tests.faults.load import Load
from tests.kafka.distribution.test_copy_session import LIMITS, Pair

PARTITIONS = 2


class Faultless:
    """The unmodified distributor; mutants override `produce` or `commit`, for one record of all."""

    records = 600
    """Minimum number of records, so that the defect can occur."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def session(self, pair: Pair, source: str) -> CopySession:
        """Return an open session that runs this mutant."""
        session = CopySession(pair.plan(source), replace(LIMITS, record_loop="python"))
        session.open(lambda: True)
        loop = session._loop
        produce, commit = loop.produce, session._commit
        loop.produce = lambda *record: self._one(produce, *record)  # type: ignore[method-assign]
        session._commit = lambda: self.commit(session, commit)  # type: ignore[method-assign]
        return session

    def _one(self, produce: Callable[..., None], *record: object) -> None:
        with self._lock:
            self._count += 1
            count = self._count
        self.produce(count, produce, *record)

    def produce(self, count: int, produce: Callable[..., None], *record: object) -> None:
        produce(*record)

    def commit(self, session: CopySession, commit: Callable[[], None]) -> None:
        commit()


class DropsOneIn10000(Faultless):
    records = 10_500

    def produce(self, count, produce, *record):
        if count % 10_000 != 0:
            produce(*record)


class DoublesOne(Faultless):
    def produce(self, count, produce, *record):
        produce(*record)
        if count == 300:
            produce(*record)


class OmitsTheFlag(Faultless):
    def produce(self, count, produce, *record):
        *others, headers = record
        if count == 300:
            headers = [header for header in headers if header[0] != FLAGS]
        produce(*others, headers)


class AltersTheTime(Faultless):
    def produce(self, count, produce, *record):
        *others, timestamp_ms, headers = record
        produce(*others, timestamp_ms + (count == 300), headers)


class SwapsTwo(Faultless):
    def __init__(self):
        super().__init__()
        self._held = None

    def produce(self, count, produce, *record):
        if count == 300:
            self._held = (produce, record)
            return
        produce(*record)
        if self._held is not None and self._held[1][:2] == record[:2]:
            held, self._held = self._held, None
            held[0](*held[1])


class CommitsPositionsFirst(Faultless):
    """A distributor that commits positions first, and dies before it commits the records."""

    def __init__(self):
        super().__init__()
        self._died = threading.Event()

    def commit(self, session, commit):
        if self._count > 300 and not self._died.is_set():
            self._died.set()
            offsets = [
                TopicPartition(
                    each.target_topic, place[1], each.source.position, each.edge.metadata(each.source.position)
                )
                for place, each in session._progress.items()
                if each.to_commit
            ]
            session._group_member.commit(offsets=offsets, asynchronous=False)
            raise CopyFailed("died between positions and records")
        commit()


MUTANTS = {
    Faultless: set(),
    DropsOneIn10000: {"missing"},
    DoublesOne: {"duplicates"},
    OmitsTheFlag: {"wrong_flags"},
    AltersTheTime: {"altered"},
    SwapsTwo: {"out_of_order"},
    CommitsPositionsFirst: {"missing"},
}


@pytest.fixture(scope="module")
def verdicts(estate) -> Iterator[dict[type[Faultless], Verdict]]:
    """Yield the checker's verdict on each mutant."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - shown with a failure
    with ThreadPoolExecutor(len(MUTANTS)) as pool:
        yield dict(zip(MUTANTS, pool.map(lambda mutant: run(mutant(), Pair(estate), seed), MUTANTS), strict=True))


def run(mutant: Faultless, pair: Pair, seed: int) -> Verdict:
    """Send records both ways through the mutant, and return the verdict."""
    names = [pair.a, pair.b]
    root = tree_shape.parse({"level": 1, "children": [{"cluster": name} for name in names]}, set(names))
    targets = tree_shape.default_targets(root)
    topics = {pair.a: pair.topic, pair.b: pair.copy_topic}
    fleet = Fleet(
        tuple(Member(name, pair.servers[name], {}, topics[name]) for name in names),
        {name: routes.arrival_flags(root, targets, name) for name in names},
        PARTITIONS,
    )
    history, stopping, lags = History(seed, names), threading.Event(), dict[str, int | None]()
    with ThreadPoolExecutor(len(names)) as pool:
        ways = [pool.submit(distribute, mutant, pair, name, stopping, lags) for name in names]
        try:
            with Load(history, pair.servers, topics, PARTITIONS, rate=mutant.records):
                eventually(lambda: history.counts()["ok"] > mutant.records, "enough is sent")
            restless = wait_until_at_rest(fleet, lambda: [name for name in names if lags.get(name) != 0])
        finally:
            stopping.set()
        for way in ways:
            way.result()
    verdict = judge(history, fleet, {pair.a: 1, pair.b: 2}, pair.stream)
    verdict.anomalies += restless
    return verdict


def distribute(
    mutant: Faultless, pair: Pair, source: str, stopping: threading.Event, lags: dict[str, int | None]
) -> None:
    """Do what a distributor's thread does: open a session, and another one when it fails."""
    while not stopping.is_set():
        session = mutant.session(pair, source)
        try:
            while not stopping.is_set():
                session.copy_batch(0.1)
                lags[source] = session.lag_records()
        except CopyFailed:
            lags[source] = None
        finally:
            session.close()


@pytest.mark.parametrize(("mutant", "kind"), MUTANTS.items(), ids=[mutant.__name__ for mutant in MUTANTS])
def test_the_checker_finds_what_a_distributor_does_wrong(verdicts, mutant, kind):
    verdict = verdicts[mutant]
    assert verdict.sends["ok"] > mutant.records
    # One defect may cause others: a record that arrives late is taken for a new one, and copied back.
    assert kind <= set(kinds(verdict)), verdict.anomalies[:10]
    assert bool(verdict.anomalies) == bool(kind), verdict.anomalies[:10]
