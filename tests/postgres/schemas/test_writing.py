"""A write checks the primary under the lock, and counts if it is still valid when it is read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
from sqlalchemy import Engine

from backend.deciders import TREE
from backend.domain.distribution.edges import Endpoint
from backend.domain.tree.primary_move import RecordPrimaryMoved
from backend.eventlog.held_lock import HeldLock
from backend.kafka.schemas.schemas_topic import LogRecord, SchemasTopic
from backend.registry import writing
from backend.registry.catalog import Catalog
from backend.registry.mirror import Mirror
from backend.registry.parsing import Parser
from backend.registry.records import Content, Record, SchemaVersion, encode
from backend.registry.refusals import RegistryError
from backend.registry.registering import Decision, Wanted, register
from backend.registry.writing import Writer
from tests.support.api.rest import NOBODY_LISTENS, Rest, rest_on
from tests.support.api.worker_records import record
from tests.support.database.postgres import Database
from tests.support.schemas.addresses import TOPIC
from tests.support.schemas.written_log import avro

ENDPOINT = Endpoint(name="c1", number=1, bootstrap_servers=NOBODY_LISTENS, properties={})


@pytest.fixture
def rest(database: Database) -> Iterator[Rest]:
    """Yield an API with three clusters in a tree whose primary is c1."""
    with rest_on(database.url) as found:
        found.grow()
        yield found


class Log:
    """The schemas topic of c1, which is read back as soon as it is written."""

    def __init__(self) -> None:
        self.mirror = Mirror(ENDPOINT, TOPIC)
        self.mirror.topic = cast(SchemasTopic, self)
        self.others: list[Record] = []
        """What another writer appends before whatever comes next."""
        self._end = 0
        self._read([])

    def end(self) -> tuple[str, int]:
        return "t", self._end

    def append(self, entries: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        others, self.others = self.others, []
        self._read([*map(encode, others), *entries])
        return [self._end - 1]

    def _read(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        records = [LogRecord(self._end + at, *entry, frozenset(), 0) for at, entry in enumerate(entries)]
        self._end += len(records)
        self.mirror._apply(self.mirror.catalog, records)
        self.mirror._publish(self.mirror.catalog, "t", self._end)

    def register(self, engine: Engine, subject: str) -> int:
        def decide(catalog: Catalog, parser: Parser) -> Decision:
            return register(catalog, parser, subject, Wanted(content=Content(text=avro("a"))))

        found: int = Writer(engine, self.mirror).write(decide, lambda cluster: f"http://{cluster}")["id"]
        return found


def test_who_waited_while_the_primary_moved_writes_nothing(
    rest: Rest, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move has the lock; whoever gets it afterwards had asked the primary of before."""
    given = writing.writing_schemas

    @contextmanager
    def after_a_move(engine: Engine, cluster: str) -> Iterator[HeldLock]:
        record(database.engine, RecordPrimaryMoved(cluster="c2", previous="c1"), TREE, "tree-main")
        with given(engine, cluster) as lock:
            yield lock

    assert rest("PUT", "/trees/main/primary", {"cluster": "c2"}).status_code == 202
    monkeypatch.setattr(writing, "writing_schemas", after_a_move)
    log = Log()
    with pytest.raises(RegistryError) as refused:
        log.register(database.engine, "ours")
    assert (refused.value.status, refused.value.code) == (403, 40301)
    assert "http://c2" in refused.value.message
    assert log.end() == ("t", 0)


def test_who_was_overtaken_decides_again(rest: Rest, database: Database) -> None:
    """The lock was lost meanwhile, and another writer was quicker to give the id away."""
    log = Log()
    log.others = [SchemaVersion(subject="theirs", version=1, id=1, content=Content(text='"int"'))]
    assert log.register(database.engine, "ours") == 2
    catalog = log.mirror.catalog
    assert [(each.subject, each.version, each.id) for each in catalog.all_versions()] == [
        ("ours", 1, 2),
        ("theirs", 1, 1),
    ]
    assert catalog.contents[1].text == '"int"' and not catalog.overruled
