"""Mode IMPORT: ids and versions that are brought along."""

from __future__ import annotations

import pytest

from backend.registry import reading
from backend.registry.deleting import delete_subject, delete_version
from backend.registry.records import Reference
from backend.registry.refusals import RegistryError
from backend.registry.settings_changes import delete_mode, set_mode
from tests.support.schemas.written_log import WrittenLog, avro, compacted, read, referring, state


def numbers(log: WrittenLog, subject: str) -> list[int]:
    """Return the versions of a subject."""
    return reading.numbers(log.catalog, subject, deleted=False, only_deleted=False, as_negative=False)


def test_in_mode_import_ids_and_versions_are_kept_and_nothing_is_compared():
    log = WrittenLog()
    log.write(set_mode, "s", "IMPORT", force=False)
    assert log.register("s", avro("a"), id=40, version=7) == 40
    assert log.register("s", '"int"', id=20, version=3) == 20
    assert numbers(log, "s") == [3, 7]
    log.write(delete_mode, "s")
    assert log.register("t", avro("new")) == 41


def test_an_id_far_above_the_highest_is_brought_along_by_force_only():
    log = WrittenLog()
    log.write(set_mode, None, "IMPORT", force=False)
    assert log.register("s", avro("a"), id=1_000_000) == 1_000_000
    with pytest.raises(RegistryError) as refused:
        log.register("s", avro("b"), id=2_000_001)
    assert (refused.value.code, "force=true" in refused.value.message) == (42201, True)
    assert log.catalog.highest_id == 1_000_000
    assert log.register("s", avro("b"), id=2_000_001, force=True) == 2_000_001


def test_importing_the_same_twice_writes_nothing():
    log = WrittenLog()
    log.write(set_mode, None, "IMPORT", force=False)
    log.register("s", avro("a"), id=40, version=7)
    entries = len(log.entries)
    assert log.register("s", avro("a"), id=40, version=7) == 40
    assert log.register("s", avro("a"), id=40) == 40
    assert len(log.entries) == entries


def test_into_mode_import_softly_deleted_versions_do_not_come_along():
    log = WrittenLog()
    log.register("s", avro("a"))
    log.write(delete_subject, "s", permanent=False)
    assert log.write(set_mode, "s", "import", force=False) == {"mode": "IMPORT"}
    assert "s" not in log.catalog.subjects
    assert read(compacted(log.entries, forget_tombstones=True)).highest_id == 1


@pytest.fixture
def importing() -> WrittenLog:
    """Mode IMPORT: versions 7, softly deleted, 8, which another subject refers to, and 9; ids 40 to 42."""
    log = WrittenLog()
    log.write(set_mode, None, "IMPORT", force=False)
    for version, schema_id, field in ((7, 40, "a"), (8, 41, "b"), (9, 42, "c")):
        log.register("s", avro(field), id=schema_id, version=version)
    log.write(delete_version, "s", "7", permanent=False)
    log.register("user", referring("User", "Order"), Reference(name="Order", subject="s", version=8), id=50)
    return log


OCCUPIED = {
    f"version {version}, {what}": (version, text, schema_id)
    for version, own in ((7, 40), (8, 41), (9, 42))
    for what, text, schema_id in (
        ("a new schema and a new id", avro("other"), 60),
        ("a new schema and its own id", avro("other"), own),
        ("its own schema and a new id", avro("abc"[own - 40]), 60),
        ("a schema and an id of its subject", avro("c" if version == 8 else "b"), 42 if version == 8 else 41),
    )
}


@pytest.mark.parametrize(("version", "text", "schema_id"), OCCUPIED.values(), ids=OCCUPIED)
def test_a_version_that_is_taken_is_never_replaced(importing: WrittenLog, version: int, text: str, schema_id: int):
    """A version keeps its place whatever is sent, whoever references it, deleted or not: its id would be lost."""
    before, entries = state(importing.catalog), len(importing.entries)

    with pytest.raises(RegistryError) as refused:
        importing.register("s", text, id=schema_id, version=version)

    assert refused.value.code == 42205
    assert (state(importing.catalog), len(importing.entries)) == (before, entries)


def test_what_is_deleted_softly_comes_back_when_it_is_imported_again(importing: WrittenLog):
    assert importing.register("s", avro("a"), id=40, version=7) == 40
    assert numbers(importing, "s") == [7, 8, 9]


def test_a_schema_that_is_sent_anew_with_other_blanks_is_the_same(importing: WrittenLog):
    entries = len(importing.entries)
    assert importing.register("s", avro("b").replace(",", " ,\n "), id=41, version=8) == 41
    assert len(importing.entries) == entries


@pytest.mark.parametrize("subject", ["s", "t"])
def test_an_id_that_is_taken_is_never_given_to_another_schema(importing: WrittenLog, subject: str):
    """The id of a soft-deleted version counts, too, since data still names it."""
    for schema_id in (40, 41, 50):
        with pytest.raises(RegistryError) as refused:
            importing.register(subject, avro("other"), id=schema_id, version=20)
        assert refused.value.code == 42205
