"""Schemas that the registry's tests register, and a log that is written by the rules, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from backend.registry import reading
from backend.registry.catalog import Catalog
from backend.registry.deleting import delete_subject
from backend.registry.parsing import Parser
from backend.registry.records import Content, Record, Reference, decode, encode
from backend.registry.registering import Decision, Wanted, register

LogEntry = tuple[bytes, bytes | None]


def avro(*fields: str, name: str = "Order", **more: Any) -> str:
    """A record of texts; a field that ends in `?` has a default, so that others need not know it."""
    made = [
        {"name": field.removesuffix("?"), "type": "string", **({"default": ""} if field.endswith("?") else {})}
        for field in fields
    ]
    return json.dumps({"type": "record", "name": name, **more, "fields": made}, separators=(",", ":"))


def referring(name: str, to: str) -> str:
    """A record with a field of another schema's type."""
    fields = [{"name": "inner", "type": to}]
    return json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))


class WrittenLog:
    """A log with a single writer: decides on a catalog, and reads back its records."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.catalog = Catalog()
        self.parser = Parser()

    def append(self, *records: Record) -> list[bool]:
        """Append records; return whether each of them counts."""
        written = [encode(record) for record in records]
        self.entries += written
        return [take(self.catalog, entry) for entry in written]

    def write(self, rule: Callable[..., Decision], *arguments: Any, **options: Any) -> Any:
        """Carry out a rule that needs the catalog alone; its answer. Raises RegistryError."""
        return self._written(rule(self.catalog, *arguments, **options))

    def register(self, subject: str, text: str, *references: Reference, **more: Any) -> int:
        """Register a schema; return its id. Raises RegistryError."""
        of_content = {name: more.pop(name) for name in ("kind", "contract") if name in more}
        content = Content(text=text, references=references, **of_content)
        wanted = Wanted(content=content, **more)
        found: int = self._written(register(self.catalog, self.parser, subject, wanted))["id"]
        return found

    def decide(self, rule: Callable[[Catalog, Parser], Decision], _: Callable[[str], str]) -> Any:
        """Decide and write as `Writer.write` does for a cluster that is the primary."""
        return self._written(rule(self.catalog, self.parser))

    def _written(self, decision: Decision) -> Any:
        assert all(self.append(*decision.records)), "a record of the only writer does not count"
        return decision.answer


def take(catalog: Catalog, entry: LogEntry) -> bool:
    """Read one entry of a log; whether it counts."""
    record = decode(*entry)
    return record is None or catalog.apply(record)


def read(entries: list[LogEntry]) -> Catalog:
    """The catalog of a log that is read from its beginning."""
    catalog = Catalog()
    for entry in entries:
        take(catalog, entry)
    return catalog


def compacted(entries: list[LogEntry], *, forget_tombstones: bool) -> list[LogEntry]:
    """The log after its cleaner: the last entry of each key, in their order."""
    last = {key: place for place, (key, _) in enumerate(entries)}
    kept = [entries[place] for place in sorted(last.values())]
    return [entry for entry in kept if entry[1] is not None or not forget_tombstones]


def state(catalog: Catalog) -> dict[str, Any]:
    """Return all facts that a catalog answers with."""
    versions = list(catalog.all_versions())
    return {
        "versions": versions,
        "contents": dict(sorted(catalog.contents.items())),
        "configs": {key: dict(fields) for key, fields in catalog.configs.items()},
        "modes": catalog.modes,
        "ids": {each.content: catalog.id_of(each.content) for each in versions},
        "referrers": {
            (each.subject, each.version): sorted(
                (other.subject, other.version)
                for other in catalog.referrers((each.subject, each.version), deleted=True)
            )
            for each in versions
        },
    }


def settled() -> WrittenLog:
    """Subject `s` with two versions, `gone` with a softly deleted one, `used` that `user` refers to."""
    log = WrittenLog()
    log.register("s", avro("a"))
    log.register("s", avro("a", "b?"))
    log.register("gone", avro("a", name="Gone"))
    log.write(delete_subject, "gone", permanent=False)
    log.register("used", avro("a", name="Used"))
    log.register("user", referring("User", "Used"), Reference(name="Used", subject="used", version=1))
    return log


def numbers(log: WrittenLog, subject: str) -> list[int]:
    """Versions of a subject, softly deleted ones below zero."""
    return reading.numbers(log.catalog, subject, deleted=True, only_deleted=False, as_negative=True)
