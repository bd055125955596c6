"""The catalog: what the log's order makes of records, whatever their history."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from backend.registry.catalog import Catalog
from backend.registry.records import (
    ConfigSet,
    Content,
    ModeSet,
    Noop,
    Record,
    Reference,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionGone,
    encode,
)
from tests.support.schemas.written_log import compacted, read, state

SUBJECTS = ("a", "b", "c")
subjects = st.sampled_from(SUBJECTS)
numbers = st.integers(1, 3)
references = st.builds(Reference, name=st.sampled_from(["x", "y"]), subject=subjects, version=numbers)
contents = st.builds(
    Content, text=st.sampled_from(["1", "2", "3"]), references=st.lists(references, max_size=2).map(tuple)
)
versions = st.builds(
    SchemaVersion, subject=subjects, version=numbers, id=st.integers(1, 4), content=contents, deleted=st.booleans()
)
records: st.SearchStrategy[Record] = st.one_of(
    versions,
    versions,
    versions,
    st.builds(VersionGone, subject=subjects, version=numbers),
    st.builds(SubjectDeleted, subject=subjects, version=numbers),
    st.builds(SubjectCleared, subject=st.none() | subjects),
    st.builds(ConfigSet, subject=st.none() | subjects, fields=st.none() | st.just({"compatibilityLevel": "NONE"})),
    st.builds(ModeSet, subject=st.none() | subjects, mode=st.none() | st.just("IMPORT")),
    st.builds(Noop, highest_id=st.none() | st.integers(1, 9)),
)


class Naive:
    """The same by the plainest means: a list of versions, searched from one end to the other."""

    def __init__(self) -> None:
        self.versions: list[SchemaVersion] = []
        self.overruled: set[tuple[str, int]] = set()
        self.highest = 0

    def apply(self, record: Record) -> None:
        match record:
            case SchemaVersion():
                key = (record.subject, record.version)
                self.highest = max(self.highest, record.id)
                holders = [each for each in self.versions if each.id == record.id]
                # What an id says is what its first holder of today said.
                if holders and holders[0].content.text != record.content.text:
                    self.overruled.add(key)
                    return
                self.drop(key)
                self.versions.append(record)
            case VersionGone():
                self.drop((record.subject, record.version))
            case SubjectDeleted():
                self.versions = [
                    replace(each, deleted=True)
                    if each.subject == record.subject and each.version <= record.version
                    else each
                    for each in self.versions
                ]
            case SubjectCleared():
                for each in list(self.versions):
                    if each.deleted and record.subject in (None, each.subject):
                        self.drop((each.subject, each.version))
            case Noop(highest_id=highest):
                self.highest = max(self.highest, highest or 0)

    def drop(self, key: tuple[str, int]) -> None:
        self.versions = [each for each in self.versions if (each.subject, each.version) != key]
        self.overruled.discard(key)


@given(st.lists(records, max_size=40))
def test_any_history_gives_what_the_plainest_reading_gives(history):
    catalog, naive = Catalog(), Naive()
    for record in history:
        catalog.apply(record)
        naive.apply(record)
        assert list(catalog.all_versions()) == sorted(
            naive.versions, key=lambda each: (each.subject, each.version)
        )
        assert catalog.overruled == naive.overruled
        assert catalog.highest_id == naive.highest
        for number in range(1, 5):
            users = [(each.subject, each.version) for each in naive.versions if each.id == number]
            assert sorted((each.subject, each.version) for each in catalog.used_by(number)) == sorted(users)
            oldest = next((each.content for each in naive.versions if each.id == number), None)
            assert catalog.contents.get(number) == oldest, "also for who reads it compacted"
        for each in naive.versions:
            ids = {other.id for other in naive.versions if other.content == each.content}
            assert catalog.id_of(each.content) == min(ids)
            assert catalog.contents[each.id].text == each.content.text
        for subject in SUBJECTS:
            for number in range(1, 4):
                wanted = {
                    (each.subject, each.version)
                    for each in naive.versions
                    if any((r.subject, r.version) == (subject, number) for r in each.content.references)
                }
                found = catalog.referrers((subject, number), deleted=True)
                assert {(each.subject, each.version) for each in found} == wanted


@given(st.lists(records, max_size=40))
def test_reading_twice_gives_the_same(history):
    entries = [encode(record) for record in history]
    assert state(read(entries)) == state(read(entries))


@given(st.lists(records.filter(lambda each: not isinstance(each, SubjectCleared)), max_size=40), st.booleans())
def test_after_its_repairs_a_log_says_the_same_compacted_or_not(history, forget_tombstones):
    """An overruled record would come to count once compaction has taken what overruled it."""
    catalog, entries = Catalog(), []
    # A registry deletes a subject up to its newest version. An order with an older one behind it would be lost.
    newest = [replace(each, version=3) if isinstance(each, SubjectDeleted) else each for each in history]
    for record in newest:
        # Each writer repairs before it writes, except for the one that was overtaken and wrote this.
        for each in (*catalog.repairs(), record):
            catalog.apply(each)
            entries.append(encode(each))
    for each in catalog.repairs():
        catalog.apply(each)
        entries.append(encode(each))
    assert not catalog.overruled
    assert state(read(compacted(entries, forget_tombstones=forget_tombstones))) == state(catalog)


@given(
    st.lists(records.filter(lambda each: not isinstance(each, SubjectCleared)), max_size=20),
    st.lists(records.filter(lambda each: not isinstance(each, SubjectCleared)), max_size=20),
    st.booleans(),
)
def test_what_others_wrote_under_other_keys_goes_with_ours_when_the_log_is_compacted(
    theirs, ours, forget_tombstones
):
    catalog, entries = Catalog(), []

    def write(key, value, record):
        catalog.key_spellings.note(key, record)
        entries.append((key, value))

    def newest(record):
        return replace(record, version=3) if isinstance(record, SubjectDeleted) else record

    for record in map(newest, theirs):
        for each in (*catalog.repairs(), record):
            catalog.apply(each)
            key, value = encode(each)
            write(json.dumps(dict(reversed(json.loads(key).items()))).encode(), value, each)
    for record in map(newest, ours):
        for each in (*catalog.repairs(), record):
            catalog.apply(each)
            entries.extend(catalog.key_spellings.encoded([each]))
    repairs = catalog.repairs()
    entries.extend(catalog.key_spellings.encoded(repairs))
    for each in repairs:
        catalog.apply(each)
    assert state(read(compacted(entries, forget_tombstones=forget_tombstones))) == state(catalog)


def version(subject: str, number: int, schema_id: int, text: str, **more: bool) -> SchemaVersion:
    return SchemaVersion(subject=subject, version=number, id=schema_id, content=Content(text=text), **more)


def test_an_id_keeps_the_first_schema_that_it_was_given_to():
    catalog = Catalog()
    assert catalog.apply(version("a", 1, 5, "first"))
    assert not catalog.apply(version("b", 1, 5, "second"))
    assert catalog.contents[5].text == "first"
    assert "b" not in catalog.subjects
    assert catalog.repairs() == [VersionGone(subject="b", version=1)]


def test_an_overruled_record_leaves_the_version_that_was_there_and_is_repaired_by_it():
    catalog = Catalog()
    there = version("b", 1, 6, "third")
    for record in (version("a", 1, 5, "first"), there):
        catalog.apply(record)
    assert not catalog.apply(version("b", 1, 5, "second"))
    assert catalog.version(("b", 1)) == there
    assert catalog.repairs() == [there]


def test_ids_rise_above_those_that_are_gone():
    catalog = Catalog()
    catalog.apply(version("a", 1, 9, "x"))
    catalog.apply(VersionGone(subject="a", version=1))
    assert catalog.highest_id == 9
    assert catalog.gone == {("a", 1): {9}}
    assert not catalog.contents


def test_versions_come_in_any_order_and_may_go_back_and_forth():
    catalog = Catalog()
    for record in (
        version("a", 3, 3, "3"),
        version("a", 1, 1, "1", deleted=True),
        version("a", 2, 2, "2"),
        version("a", 1, 1, "1"),
        version("a", 3, 3, "3", deleted=True),
    ):
        assert catalog.apply(record)
    assert [each.version for each in catalog.versions("a")] == [1, 2]
    assert [each.version for each in catalog.versions("a", deleted=True)] == [1, 2, 3]


def test_a_soft_deletion_of_a_subject_leaves_later_versions():
    catalog = Catalog()
    for number in (1, 2, 3):
        catalog.apply(version("a", number, number, str(number)))
    catalog.apply(SubjectDeleted(subject="a", version=2))
    assert [each.version for each in catalog.versions("a")] == [3]


def test_what_the_distributor_wrote_is_known_until_somebody_else_writes_it():
    catalog = Catalog()
    catalog.apply(version("a", 1, 1, "1"), copied=True)
    catalog.apply(version("a", 2, 2, "2"))
    assert catalog.copied == {("a", 1)}
    catalog.apply(version("a", 1, 1, "1", deleted=True))
    assert catalog.copied == set()


def test_settings_that_the_distributor_wrote_are_known_as_its_own():
    catalog = Catalog()
    catalog.apply(ConfigSet(subject=None, fields={"compatibilityLevel": "NONE"}), copied=True)
    catalog.apply(ModeSet(subject="a", mode="READONLY"), copied=True)
    assert (catalog.copied_configs, catalog.copied_modes) == ({None}, {"a"})
    catalog.apply(ConfigSet(subject=None, fields={"compatibilityLevel": "FULL"}))
    catalog.apply(ModeSet(subject="a", mode=None), copied=True)
    assert (catalog.copied_configs, catalog.copied_modes) == (set(), set())


# --- when


def there(catalog: Catalog, subject: str, moment_ms: float) -> list[int]:
    return [each.version for each in catalog.versions(subject, deleted=True) if each.was_there(moment_ms)]


def test_versions_tell_when_they_were_there() -> None:
    catalog = Catalog()
    catalog.apply(version("a", 1, 1, "1"), at_ms=1000)
    catalog.apply(version("a", 2, 2, "2"), at_ms=2000)
    assert [there(catalog, "a", at) for at in (999, 1000, 1999, 2000)] == [[], [1], [1], [1, 2]]
    # Deleted softly by a record of its own, then with its subject.
    catalog.apply(replace(version("a", 1, 1, "1"), deleted=True), at_ms=3000)
    catalog.apply(SubjectDeleted(subject="a", version=2), at_ms=4000)
    assert [there(catalog, "a", at) for at in (1000, 2999, 3000, 3999, 4000)] == [[1], [1, 2], [2], [2], []]
    # Deleted once more, as a repair says it: it was gone before.
    catalog.apply(replace(version("a", 1, 1, "1"), deleted=True), at_ms=4500)
    assert [there(catalog, "a", at) for at in (2999, 3500, 4400)] == [[1, 2], [2], []]
    # Registered again: when it was not there meanwhile is not told any more.
    catalog.apply(version("a", 1, 1, "1"), at_ms=5000)
    assert [there(catalog, "a", at) for at in (999, 1000, 9000)] == [[], [1], [1]]
    # The number given again, to another schema.
    catalog.apply(VersionGone(subject="a", version=1), at_ms=6000)
    catalog.apply(version("a", 1, 3, "3"), at_ms=7000)
    assert [there(catalog, "a", at) for at in (6999, 7000)] == [[], [1]]


def test_when_makes_no_other_version() -> None:
    one, other = Catalog(), Catalog()
    one.apply(version("a", 1, 1, "1"), at_ms=1)
    other.apply(version("a", 1, 1, "1"), at_ms=2)
    assert [*one.all_versions()] == [*other.all_versions()]
    assert encode(one.versions("a")[0]) == encode(version("a", 1, 1, "1"))
