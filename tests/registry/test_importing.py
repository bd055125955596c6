"""Mode IMPORT: ids and versions that are brought along."""

from __future__ import annotations

import pytest

from backend.registry import reading
from backend.registry.deleting import delete_subject
from backend.registry.refusals import Refusal
from backend.registry.settling import delete_mode, set_mode
from tests.registry.written_log import WrittenLog, avro, compacted, read


def numbers(log: WrittenLog, subject: str) -> list[int]:
    """Versions of a subject."""
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
    with pytest.raises(Refusal) as refused:
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
