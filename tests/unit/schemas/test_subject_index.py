"""The kept rows of subjects: after any change they are those that a new index would make, and few are made."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from backend.domain.access.access import ADMIN, Caller, Membership, Role
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.registry.access import Scope
from backend.registry.catalog import Catalog
from backend.registry.records import (
    ConfigSet,
    Content,
    Record,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionGone,
)
from backend.web.schemas.subject_index import SUBJECTS_TABLE, SubjectIndex, SubjectRow
from backend.web.tables.table_query import TableQuery

STREAMS = {f"{each}-s{number}": StreamName(each, "i", "e", f"s{number}") for each in "ab" for number in (1, 2)}
SUBJECTS = [*(f"{name}-value" for name in STREAMS), "com.acme.Order"]
LEVELS = ("FULL", "NONE")


def version(subject: str, number: int, *, deleted: bool = False) -> SchemaVersion:
    content = Content(text=f'"{subject} {number}"')
    schema_id = 10 * SUBJECTS.index(subject) + number
    return SchemaVersion(subject=subject, version=number, id=schema_id, content=content, deleted=deleted)


def any_record(chance: random.Random) -> Record:
    subject, number = chance.choice(SUBJECTS), chance.randint(1, 3)
    records: Sequence[Record] = (
        version(subject, number),
        version(subject, number, deleted=True),
        VersionGone(subject=subject, version=number),
        SubjectDeleted(subject=subject, version=number),
        SubjectCleared(subject=chance.choice((subject, None))),
        ConfigSet(subject=subject, fields=chance.choice(({"compatibilityLevel": chance.choice(LEVELS)}, None))),
        ConfigSet(subject=None, fields={"compatibilityLevel": chance.choice(LEVELS)}),
    )
    return chance.choice(records)


def scope(owners: SubjectOwners, caller: Caller = ADMIN) -> Scope:
    return Scope(caller, owners, frozenset({"a"}))


@pytest.mark.parametrize("seed", range(3))
def test_kept_rows_are_those_of_a_new_index(seed: int) -> None:
    chance, catalog, owners = random.Random(seed), Catalog(), SubjectOwners(STREAMS, {})
    index, ada = SubjectIndex(catalog), Caller(name="ada", role=Role.TENANT, tenants={"a": Membership.MEMBER})
    for now_ms in range(60):
        catalog.apply(any_record(chance), at_ms=now_ms)
        if now_ms % 20 == 10:
            owners = SubjectOwners({name: each for name, each in STREAMS.items() if chance.random() < 0.7}, {})
        for caller in (ADMIN, ada):
            seen = scope(owners, caller)
            for sort in ("name", "-id", "level"):
                assert list(index.rows(seen, sort)) == list(SubjectIndex(catalog).rows(seen, sort)), (seed, now_ms)
            past = chance.randint(0, now_ms)
            assert by_name(index.rows_at(seen, past)) == by_name(SubjectIndex(catalog).rows_at(seen, past))
            there = {
                name: len(found)
                for name in catalog.subjects
                if (found := [v for v in catalog.versions(name, deleted=True) if v.was_there(past)])
                and seen.sees(name)
            }
            assert {each.name: each.versions for each in index.rows_at(seen, past)} == there


def by_name(rows: Sequence[SubjectRow]) -> list[SubjectRow]:
    return sorted(rows, key=lambda each: each.name)


def test_only_the_changed_subject_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, owners = Catalog(), SubjectOwners(STREAMS, {})
    for subject in SUBJECTS:
        catalog.apply(version(subject, 1))
    index, read = SubjectIndex(catalog), list[str]()
    reading = Catalog.versions

    def versions(self: Catalog, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        read.append(subject)
        return reading(self, subject, deleted=deleted)

    monkeypatch.setattr(Catalog, "versions", versions)
    index.rows(scope(owners), "name")
    assert sorted(read) == sorted(SUBJECTS)
    read.clear()
    index.rows(scope(owners), "-id")
    index.rows_at(scope(owners), 1)
    assert read == []
    catalog.apply(version("a-s1-value", 2))
    index.rows(scope(owners), "name")
    index.rows(scope(SubjectOwners({k: v for k, v in STREAMS.items() if k != "b-s2"}, {})), "name")
    assert read == ["a-s1-value", "b-s2-value"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"filter": "A/I full"}, ["a-s1-value"]),
        ({"filter": "full", "columns": "name,stream"}, []),
        ({"filter": "s2 a-", "columns": "name"}, ["a-s2-value"]),
        ({"filter": "com."}, ["com.acme.Order"]),
    ],
)
def test_the_filter_searches_the_shown_cells(query: dict[str, str], names: list[str]) -> None:
    catalog, owners = Catalog(), SubjectOwners(STREAMS, {})
    for subject in SUBJECTS:
        catalog.apply(version(subject, 1))
    catalog.apply(ConfigSet(subject="a-s1-value", fields={"compatibilityLevel": "FULL"}))
    rows = SubjectIndex(catalog).rows(scope(owners), "name")
    view = SUBJECTS_TABLE.view(rows, TableQuery("/schemas", tuple(query.items())), is_sorted=True)
    assert [each.name for each in view.rows] == names
