"""Compatibility levels: the earlier schemas that a new one is checked against, and the direction of the check.

Levels are those of Confluent's registry. BACKWARD: the new schema reads data of the earlier one; FORWARD: the
earlier one reads data of the new one; FULL: both. Transitive levels check all earlier schemas, the others only the
last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backend.registry.formats import avro_resolution, protobuf_changes
from backend.registry.formats.schema_model import AVRO, PROTOBUF, Parsed
from backend.registry.known_settings import LEVELS, NONE

_MOST_REPORTED = 100

Check = Callable[[Parsed, Parsed, str, str], list[str]]
"""(reader, writer, description of each) -> reasons why the reader cannot read the writer's data."""


class LevelNotSupported(Exception):
    """A level requires a check that does not exist for schemas of this type."""

    def __init__(self, level: str, kind: str) -> None:
        self.level, self.kind = level, kind
        super().__init__(
            f"Compatibility level {level} cannot be checked for schemas of type {kind}: no reliable "
            f"check exists. Supported levels: {', '.join(levels_of(kind))}."
        )


def _avro(reader: Parsed, writer: Parsed, reader_called: str, writer_called: str) -> list[str]:
    return avro_resolution.problems(reader.tree, writer.tree, reader_called, writer_called)


def _protobuf(reader: Parsed, writer: Parsed, reader_called: str, writer_called: str) -> list[str]:
    return protobuf_changes.problems(reader.tree, writer.tree, reader_called, writer_called)


_CHECKS: dict[str, Check] = {AVRO: _avro, PROTOBUF: _protobuf}


def levels_of(kind: str) -> tuple[str, ...]:
    """Return the levels that can be checked for schemas of this type."""
    return LEVELS if kind in _CHECKS else (NONE,)


def problems(level: str, new: Parsed, previous: Sequence[Parsed]) -> list[str]:
    """Return the incompatibilities of the new schema, newest earlier schema first; empty if it is compatible.

    `previous`: oldest first. Raises LevelNotSupported, unless there is nothing to check: no earlier schema, or
    only the very same one.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown compatibility level {level!r}")
    against = [] if level == NONE else previous if level.endswith("_TRANSITIVE") else previous[-1:]
    found: list[str] = []
    for index, earlier in reversed(list(enumerate(against, start=1))):
        called = f"the earlier schema {index} of {len(against)}" if len(against) > 1 else "the earlier schema"
        if earlier.identity != new.identity:
            found += _between(level, new, earlier, called)
    more = len(found) - _MOST_REPORTED
    return found if more <= 0 else [*found[:_MOST_REPORTED], f"and {more} more problems"]


def _between(level: str, new: Parsed, earlier: Parsed, called: str) -> list[str]:
    if new.kind != earlier.kind:
        return [f"SCHEMA_TYPE_CHANGED at /: the new schema is of type {new.kind}, {called} of type {earlier.kind}"]
    if level not in levels_of(new.kind):
        raise LevelNotSupported(level, new.kind)
    found: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += _CHECKS[new.kind](new, earlier, "the new schema", called)
    if level.startswith(("FORWARD", "FULL")):
        found += _CHECKS[new.kind](earlier, new, called, "the new schema")
    return found
