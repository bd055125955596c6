"""Rules of registering, deleting and settings, and every error by its code."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from backend.registry import reading
from backend.registry.deleting import delete_subject, delete_version
from backend.registry.records import Content, Noop, Reference, SchemaVersion, SubjectDeleted, decode
from backend.registry.refusals import RegistryError
from backend.registry.registering import Wanted, find
from backend.registry.settings_changes import delete_config, delete_mode, set_config, set_mode
from tests.support.schemas.written_log import WrittenLog, avro, compacted, numbers, read, referring, settled

CONTRACT = json.dumps({"metadata": {"properties": {"owner": "a"}}})


# --- registering


def test_a_schema_has_one_id_in_all_subjects():
    log = WrittenLog()
    assert log.register("a", avro("x")) == log.register("b", avro("x")) == 1
    assert log.register("a", avro("x", "y?")) == 2
    assert log.register("b", avro("x", "y?")) == 2
    assert log.catalog.highest_id == 2


def test_registering_what_is_there_writes_nothing():
    log = WrittenLog()
    log.register("a", avro("x"))
    entries = len(log.entries)
    assert log.register("a", avro("x")) == 1
    differently_written = json.dumps(json.loads(avro("x")), indent=4)
    assert log.register("a", differently_written) == 1
    assert len(log.entries) == entries


def test_the_same_text_with_other_references_is_another_schema():
    log = WrittenLog()
    log.register("used", avro("a", name="Used"))
    log.register("used", avro("a", "b?", name="Used"))
    ids = {
        log.register("one", referring("User", "Used"), Reference(name="Used", subject="used", version=number))
        for number in (1, 2)
    }
    assert len(ids) == 2


def test_an_old_version_that_is_registered_again_is_found_and_not_appended():
    log = settled()
    assert log.register("s", avro("a")) == 1
    assert numbers(log, "s") == [1, 2]


def test_a_softly_deleted_schema_comes_back_under_its_id_as_a_version_of_its_own():
    log = settled()
    number = log.catalog.versions("gone", deleted=True)[0].id
    assert log.register("gone", avro("a", name="Gone")) == number
    assert numbers(log, "gone") == [2]


def test_a_softly_deleted_version_that_is_referred_to_stays():
    log = WrittenLog()
    used = Reference(name="Used", subject="used", version=1)
    log.register("used", avro("a", name="Used"))
    log.register("user", referring("User", "Used"), used)
    log.write(delete_subject, "user", permanent=False)
    log.write(delete_subject, "used", permanent=False)
    log.register("used", avro("a", name="Used"))
    assert numbers(log, "used") == [-1, 2]


def test_after_a_permanent_deletion_versions_begin_anew_and_ids_do_not():
    log = settled()
    log.write(delete_subject, "s", permanent=False)
    log.write(delete_subject, "s", permanent=True)
    before = log.catalog.highest_id
    assert log.register("s", avro("new")) == before + 1
    assert numbers(log, "s") == [1]


def test_the_highest_id_outlives_the_compaction_of_its_schema():
    log = settled()
    highest = log.register("last", avro("last"))
    log.write(delete_subject, "last", permanent=False)
    log.write(delete_subject, "last", permanent=True)
    assert read(compacted(log.entries, forget_tombstones=True)).highest_id == highest
    assert log.register("next", avro("next")) == highest + 1


def test_no_record_is_spent_on_the_highest_id_while_a_version_has_it():
    log = settled()
    log.write(delete_version, "gone", "1", permanent=True)
    assert not any(isinstance(decode(*entry), Noop) for entry in log.entries)


def test_references_are_followed_to_their_end():
    log = WrittenLog()
    log.register("c", avro("a", name="C"))
    log.register("b", referring("B", "C"), Reference(name="C", subject="c", version=1))
    assert log.register("a", referring("A", "B"), Reference(name="B", subject="b", version=1)) == 3


def test_a_ring_of_references_which_others_wrote_is_refused_and_ends():
    log = WrittenLog()
    for one, other in (("a", "b"), ("b", "a")):
        reference = Reference(name=other.upper(), subject=other, version=1)
        content = Content(text=referring(one.upper(), other.upper()), references=(reference,))
        log.append(SchemaVersion(subject=one, version=1, id=ord(one), content=content))
    with pytest.raises(RegistryError) as refused:
        log.register("user", referring("User", "A"), Reference(name="A", subject="a", version=1))
    assert refused.value.code == 42201


def test_a_data_contract_belongs_to_the_schema_and_is_inherited_by_the_next_version():
    log = WrittenLog()
    with_contract = log.register("a", avro("x"), contract=CONTRACT)
    assert log.register("b", avro("x")) != with_contract
    # A producer that registers what it has knows of no contract.
    assert log.register("a", avro("x")) == with_contract
    log.register("a", avro("x", "y?"))
    assert log.catalog.versions("a")[-1].content.contract == CONTRACT


def test_looking_up_finds_the_newest_version_with_this_schema():
    log = settled()
    found = find(log.catalog, log.parser, "s", Wanted(content=Content(text=avro("a", "b?"))))
    assert found is not None
    assert (found.version, found.id) == (2, 2)
    gone = Wanted(content=Content(text=avro("a", name="Gone")))
    assert find(log.catalog, log.parser, "gone", gone) is None
    assert find(log.catalog, log.parser, "gone", gone, deleted=True) is not None


# --- compatibility


@pytest.mark.parametrize("level", ["NONE", "FORWARD", "FORWARD_TRANSITIVE"])
def test_what_backward_refuses_another_level_takes(level):
    log = WrittenLog()
    log.register("s", avro("a"))
    log.write(set_config, "s", {"compatibility": level.lower()})
    assert log.register("s", avro("a", "needed")) == 2


def test_a_level_without_transitive_looks_at_the_latest_version_only():
    log = WrittenLog()
    log.register("s", avro("a"))
    log.write(set_config, "s", {"compatibility": "NONE"})
    log.register("s", avro("other"))
    for level, works in (("BACKWARD_TRANSITIVE", False), ("BACKWARD", True)):
        log.write(set_config, "s", {"compatibility": level})
        if works:
            assert log.register("s", avro("other", "more?")) == 3
        else:
            with pytest.raises(RegistryError) as refused:
                log.register("s", avro("other", "more?"))
            assert refused.value.status == 409


def test_a_subject_without_a_level_of_its_own_has_that_of_all():
    log = WrittenLog()
    log.write(set_config, None, {"compatibility": "NONE"})
    log.register("s", avro("a"))
    log.register("s", avro("other"))
    log.write(delete_config, None)
    with pytest.raises(RegistryError):
        log.register("s", avro("a", "needed"))


# --- deleting


def test_deleting_is_soft_first_and_then_for_good():
    log = settled()
    schema_id = log.catalog.versions("s")[0].id
    assert log.write(delete_version, "s", "1", permanent=False) == 1
    assert numbers(log, "s") == [-1, 2]
    assert reading.schema_by_id(
        log.catalog, schema_id, None, with_highest=False, formatted=lambda content: content
    )["schema"] == avro("a")
    assert log.write(delete_version, "s", "1", permanent=True) == 1
    assert numbers(log, "s") == [2]
    assert schema_id not in log.catalog.contents


def test_a_subject_is_softly_deleted_by_one_record():
    log = settled()
    before = len(log.entries)
    assert log.write(delete_subject, "s", permanent=False) == [1, 2]
    assert [decode(*entry) for entry in log.entries[before:]] == [SubjectDeleted(subject="s", version=2)]


def test_the_latest_version_is_the_latest_that_is_not_deleted():
    log = settled()
    log.write(delete_version, "s", "latest", permanent=False)
    assert reading.version_of(log.catalog, "s", "-1", deleted=False).version == 1


def test_with_a_subject_its_own_configuration_and_mode_go():
    log = settled()
    log.write(set_config, "s", {"compatibility": "NONE"})
    log.write(set_mode, "s", "READWRITE", force=False)
    log.write(delete_subject, "s", permanent=False)
    assert log.write(delete_subject, "s", permanent=True) == [1, 2]
    assert not log.catalog.configs
    assert not log.catalog.modes
    log.write(set_config, "gone", {"compatibility": "NONE"})
    log.write(delete_version, "gone", "1", permanent=True)
    assert not log.catalog.configs


def test_a_subject_whose_versions_refer_to_each_other_goes_as_a_whole():
    log = WrittenLog()
    log.write(set_config, None, {"compatibility": "NONE"})
    log.register("s", avro("a", name="Used"))
    log.register("s", referring("User", "Used"), Reference(name="Used", subject="s", version=1))
    log.write(delete_subject, "s", permanent=False)
    assert log.write(delete_subject, "s", permanent=True) == [1, 2]


def test_what_a_softly_deleted_schema_refers_to_stays():
    """The soft-deleted schema's id still resolves, and nobody could read the schema without its reference."""
    log = WrittenLog()
    log.register("used", avro("a", name="Used"))
    log.register("user", referring("User", "Used"), Reference(name="Used", subject="used", version=1))
    for subject in ("user", "used"):
        log.write(delete_subject, subject, permanent=False)
    for delete in (
        lambda: log.write(delete_subject, "used", permanent=True),
        lambda: log.write(delete_version, "used", "1", permanent=True),
    ):
        with pytest.raises(RegistryError) as refused:
            delete()
        assert refused.value.code == 42206
    for subject in ("user", "used"):
        assert log.write(delete_subject, subject, permanent=True) == [1]


# --- levels and modes


def test_a_change_of_the_configuration_keeps_what_it_does_not_name():
    log = WrittenLog()
    assert log.write(set_config, "s", {"normalize": True}) == {"normalize": True}
    assert log.write(set_config, "s", {"compatibility": "full"}) == {"normalize": True, "compatibility": "FULL"}
    assert log.write(delete_config, "s") == {"normalize": True, "compatibilityLevel": "FULL"}


def test_a_subjects_own_mode_holds_against_read_only_and_not_against_its_override():
    log = WrittenLog()
    log.write(set_mode, "s", "READWRITE", force=False)
    log.write(set_mode, None, "READONLY", force=False)
    assert log.register("s", avro("a")) == 1
    log.write(set_mode, None, "READONLY_OVERRIDE", force=False)
    log.write(set_mode, "s", "READWRITE", force=False)
    assert reading.mode(log.catalog, "s", or_global=False) == {"mode": "READONLY_OVERRIDE"}
    for write in (
        lambda: log.register("s", avro("a", "b?")),
        lambda: log.write(delete_subject, "s", permanent=False),
        lambda: log.write(set_config, "s", {"compatibility": "NONE"}),
    ):
        with pytest.raises(RegistryError) as refused:
            write()
        assert refused.value.code == 42205
    assert log.register("s", avro("a")) == 1
    log.write(delete_mode, None)
    assert log.register("s", avro("a", "b?")) == 2


# --- every refusal

Step = Callable[[WrittenLog], object]


def in_mode(mode: str, then: Step) -> Step:
    def step(log: WrittenLog) -> object:
        log.write(set_mode, None, mode, force=True)
        return then(log)

    return step


def deleted_twice(log: WrittenLog) -> object:
    log.write(delete_version, "s", "1", permanent=False)
    return log.write(delete_version, "s", "1", permanent=False)


REFUSALS: list[tuple[int, int, Step]] = [
    (40401, 404, lambda log: numbers(log, "nobody")),
    (40401, 404, lambda log: reading.version_of(log.catalog, "nobody", "1", deleted=False)),
    (40401, 404, lambda log: reading.version_of(log.catalog, "gone", "1", deleted=False)),
    (40401, 404, lambda log: log.write(delete_subject, "nobody", permanent=False)),
    (40401, 404, lambda log: log.write(delete_version, "nobody", "1", permanent=False)),
    (40401, 404, lambda log: log.write(delete_config, "s")),
    (40401, 404, lambda log: log.write(delete_mode, "s")),
    (40402, 404, lambda log: reading.version_of(log.catalog, "s", "9", deleted=False)),
    (40402, 404, lambda log: reading.version_of(log.catalog, "gone", "latest", deleted=True)),
    (40402, 404, lambda log: log.write(delete_version, "s", "9", permanent=True)),
    (
        40403,
        404,
        lambda log: reading.schema_by_id(
            log.catalog, 99, None, with_highest=False, formatted=lambda content: content
        ),
    ),
    (40403, 404, lambda log: reading.versions_by_id(log.catalog, 99, deleted=True)),
    (40404, 404, lambda log: log.write(delete_subject, "gone", permanent=False)),
    (40405, 404, lambda log: log.write(delete_subject, "s", permanent=True)),
    (40406, 404, deleted_twice),
    (40407, 404, lambda log: log.write(delete_version, "s", "1", permanent=True)),
    (40408, 404, lambda log: reading.config(log.catalog, "s", or_global=False)),
    (40409, 404, lambda log: reading.mode(log.catalog, "s", or_global=False)),
    (409, 409, lambda log: log.register("s", avro("a", "needed"))),
    (42201, 422, lambda log: log.register("s", "no schema")),
    (42201, 422, lambda log: log.register("s", '{"type": "strin"}')),
    (42201, 422, lambda log: log.register("s", "{}", kind="XML")),
    (42201, 422, lambda log: log.register("s", avro("a"), Reference(name="x", subject="nobody", version=1))),
    (42201, 422, lambda log: log.register("s", avro("a", "c?"), version=9)),
    (42202, 422, lambda log: reading.version_of(log.catalog, "s", "0", deleted=False)),
    (42202, 422, lambda log: reading.version_of(log.catalog, "s", "-2", deleted=False)),
    (42202, 422, lambda log: reading.version_of(log.catalog, "s", "last", deleted=False)),
    (42202, 422, lambda log: reading.version_of(log.catalog, "s", "99999999999", deleted=False)),
    (42203, 422, lambda log: log.write(set_config, "s", {"compatibility": "SOME"})),
    (42203, 422, lambda log: log.write(set_config, None, {"compatibility": 5})),
    (42204, 422, lambda log: log.write(set_mode, "s", "WRITEONLY", force=False)),
    (42204, 422, lambda log: log.write(set_mode, None, None, force=False)),
    (42205, 422, in_mode("READONLY", lambda log: log.register("s", avro("a", "c?")))),
    (42205, 422, in_mode("READONLY_OVERRIDE", lambda log: log.register("new", avro("a")))),
    (42205, 422, in_mode("READONLY", lambda log: log.write(delete_subject, "s", permanent=False))),
    (42205, 422, in_mode("READONLY", lambda log: log.write(delete_version, "s", "1", permanent=False))),
    (42205, 422, in_mode("READONLY", lambda log: log.write(set_config, "s", {"compatibility": "NONE"}))),
    (42205, 422, in_mode("READONLY", lambda log: log.write(delete_config, None))),
    (42205, 422, in_mode("IMPORT", lambda log: log.register("s", avro("a", "c?")))),
    (42205, 422, in_mode("IMPORT", lambda log: log.register("s", avro("a", "c?"), id=1))),
    (42205, 422, lambda log: log.register("s", avro("a", "c?"), id=77)),
    (42205, 422, lambda log: log.write(set_mode, "s", "IMPORT", force=False)),
    (42205, 422, lambda log: log.write(set_mode, None, "IMPORT", force=False)),
    (42206, 422, lambda log: log.write(delete_subject, "used", permanent=False)),
    (42206, 422, lambda log: log.write(delete_version, "used", "1", permanent=False)),
    (422, 422, lambda log: log.write(set_config, "s", {"compatibilityGroup": "g"})),
    (422, 422, lambda log: log.write(set_config, "s", {"normalize": "yes"})),
]


@pytest.mark.parametrize(
    ("code", "status", "step"), REFUSALS, ids=[f"{c}-{n}" for n, (c, *_) in enumerate(REFUSALS)]
)
def test_a_refusal_has_the_code_that_clients_know(code, status, step):
    log = settled()
    with pytest.raises(RegistryError) as refused:
        step(log)
    assert (refused.value.code, refused.value.status) == (code, status)
    assert refused.value.body()["error_code"] == code
    assert refused.value.body()["message"]


def test_an_incompatible_schema_is_told_by_all_that_does_not_fit():
    log = settled()
    with pytest.raises(RegistryError) as refused:
        log.register("s", avro("a", "needed", "as_well"))
    message = refused.value.message
    assert message.startswith('Schema being registered is incompatible with an earlier schema for subject "s"')
    assert "needed" in message
    assert "as_well" in message
    assert "BACKWARD" in message
