"""A primary and a target as logs without clusters, and what the distributor makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.domain.names.names import StreamName
from backend.domain.schemas.schema_conflicts import Conflict
from backend.domain.schemas.subjects import Translation
from backend.registry.catalog import Catalog
from backend.registry.distribution import compare
from backend.registry.records import COPIED_HEADER, Content, Record, SchemaVersion, decode, encode
from tests.support.schemas.written_log import WrittenLog, state

FULL = "{tenant}-{instance}-{environment}-{topic}"
SHORT = "{tenant}-{environment}-{topic}"
STREAMS = tuple(StreamName("acme", "retail", "prod", name) for name in ("orders", "payments", "orders-eu"))
TO_SHORT = Translation(FULL, SHORT, STREAMS)
TO_FULL = Translation(SHORT, FULL, STREAMS)
ORDERS = "acme-retail-prod-orders-value"
ORDERS_THERE = "acme-prod-orders-value"
PAYMENTS = "acme-retail-prod-payments-value"
PAYMENTS_THERE = "acme-prod-payments-value"

Entry = tuple[bytes, bytes | None, frozenset[str]]


def read(entries: list[Entry]) -> Catalog:
    """The catalog of a log from its beginning, as a distributor that has just started reads it."""
    catalog = Catalog()
    for key, value, headers in entries:
        record = decode(key, value)
        if record is not None:
            catalog.apply(record, copied=COPIED_HEADER in headers)
    return catalog


class WrittenTarget:
    """A target's log."""

    def __init__(self, translation: Translation = TO_SHORT) -> None:
        self.entries: list[Entry] = []
        self.translation = translation

    @property
    def catalog(self) -> Catalog:
        return read(self.entries)

    def strangers(self, *records: Record) -> None:
        """Append records of another registry's client."""
        self.entries += [(*encode(record), frozenset()) for record in records]

    def follow(self, primary: Catalog, most: int | None = None) -> tuple[Conflict, ...]:
        """Carry out what the comparison says, or its beginning; the conflicts."""
        found = compare(primary, self.catalog, self.translation)
        self.written(found.records[:most])
        return found.conflicts

    def written(self, records: Sequence[Record]) -> None:
        """The distributor writes."""
        self.entries += [(*encode(record), frozenset({COPIED_HEADER})) for record in records]

    def compact(self, *, forget_tombstones: bool) -> None:
        """Leave the records that log compaction leaves."""
        last = {entry[0]: place for place, entry in enumerate(self.entries)}
        kept = [self.entries[place] for place in sorted(last.values())]
        self.entries = [entry for entry in kept if entry[1] is not None or not forget_tombstones]


def entries_of(log: WrittenLog) -> list[Entry]:
    """A primary's log, to be read by `read`."""
    return [(*entry, frozenset()) for entry in log.entries]


def seen_from_there(primary: Catalog, translation: Translation = TO_SHORT) -> dict[str, Any]:
    """All that a target has to answer by."""
    wanted = WrittenTarget(translation)
    assert wanted.follow(primary) == ()
    return state(wanted.catalog)


def version(subject: str, number: int, schema_id: int, text: str, **more: Any) -> SchemaVersion:
    """Return a version that somebody else registered."""
    references = more.pop("references", ())
    content = Content(text=text, references=references)
    return SchemaVersion(subject=subject, version=number, id=schema_id, content=content, **more)
