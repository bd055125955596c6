"""The schema distributor's writes to a target, and the records it leaves alone."""

from __future__ import annotations

import json

import pytest

from backend.domain.names.names import StreamName
from backend.domain.schemas.schema_conflicts import (
    ID_TAKEN,
    NAME_TAKEN,
    ONLY_THERE,
    RECORD_NAME,
    REFERS_TO_CONFLICT,
    TOO_LARGE,
    VERSION_TAKEN,
)
from backend.domain.schemas.subjects import Translation
from backend.registry.deleting import delete_subject, delete_version
from backend.registry.distribution import compare
from backend.registry.records import ConfigSet, Content, ModeSet, Noop, Reference, SchemaVersion, VersionGone
from backend.registry.settings_changes import delete_config, set_config, set_mode
from tests.support.schemas.written_log import WrittenLog, avro, referring, state
from tests.support.schemas.written_target import (
    FULL,
    ORDERS,
    ORDERS_THERE,
    PAYMENTS,
    PAYMENTS_THERE,
    SHORT,
    STREAMS,
    TO_FULL,
    WrittenTarget,
    entries_of,
    read,
    seen_from_there,
    version,
)


@pytest.fixture
def primary() -> WrittenLog:
    return WrittenLog()


@pytest.fixture
def target() -> WrittenTarget:
    return WrittenTarget()


def kinds(conflicts: tuple) -> list[str]:
    return [each.kind for each in conflicts]


def test_a_schema_keeps_its_id_and_gets_its_name_there(primary, target):
    schema_id = primary.register(ORDERS, avro("a"))
    assert target.follow(primary.catalog) == ()
    assert target.catalog.version((ORDERS_THERE, 1)) == SchemaVersion(
        subject=ORDERS_THERE, version=1, id=schema_id, content=Content(text=avro("a"))
    )
    assert compare(primary.catalog, target.catalog, target.translation).records == ()


def test_subjects_by_record_name_stay_away_where_no_environment_allows_them(primary, target):
    primary.register("com.acme.Old", avro("a", name="Old"))
    target.follow(primary.catalog)
    used = Reference(name="Inner", subject="com.acme.Inner", version=1)
    primary.register("com.acme.Inner", avro("a", name="Inner"))
    primary.register(ORDERS, referring("Outer", "Inner"), used)
    primary.register(PAYMENTS, avro("p", name="Payment"))
    strict = Translation(FULL, SHORT, STREAMS, record_names=False)
    found = compare(primary.catalog, target.catalog, strict)
    assert [each.subject for each in found.records if isinstance(each, SchemaVersion)] == [PAYMENTS_THERE]
    assert kinds(found.conflicts) == [RECORD_NAME, REFERS_TO_CONFLICT]
    assert "no environment" in found.conflicts[0].detail
    # What is there already stays, and goes when the primary deletes it.
    assert target.catalog.versions("com.acme.Old")
    assert kinds(compare(primary.catalog, target.catalog, target.translation).conflicts) == []


def test_what_is_too_large_for_a_target_holds_up_itself_and_what_refers_to_it(primary, target):
    primary.register(PAYMENTS, avro("a", name="Inner", doc="d" * 1000))
    inner = Reference(name="Inner", subject=PAYMENTS, version=1)
    primary.register("acme-retail-prod-orders-key", referring("Outer", "Inner"), inner)
    primary.register(ORDERS, avro("a"))
    primary.append(ConfigSet(subject=ORDERS, fields={"compatibilityLevel": "FULL", "alias": "x" * 1000}))
    primary.append(ConfigSet(subject=PAYMENTS, fields={"compatibilityLevel": "FULL"}))
    found = compare(primary.catalog, target.catalog, target.translation, 1000)
    assert sorted((each.kind, each.subject, each.version) for each in found.conflicts if each.version) == [
        (REFERS_TO_CONFLICT, "acme-prod-orders-key", 1),
        (TOO_LARGE, PAYMENTS_THERE, 1),
    ]
    assert [each.subject for each in found.conflicts if each.version is None] == [ORDERS_THERE]
    assert "max.message.bytes" in found.conflicts[-1].detail
    target.written(found.records)
    assert list(target.catalog.subjects) == [ORDERS_THERE]
    assert list(target.catalog.configs) == [PAYMENTS_THERE]
    again = compare(primary.catalog, target.catalog, target.translation, 1000)
    assert (again.records, again.conflicts) == ((), found.conflicts)
    # The topic takes larger records by now.
    assert target.follow(primary.catalog) == ()
    assert state(target.catalog) == seen_from_there(primary.catalog)


def test_what_is_no_text_holds_up_no_other(primary, target):
    primary.register(ORDERS, avro("a"))
    broken = SchemaVersion(subject=PAYMENTS, version=1, id=9, content=Content(text="\ud800"))
    primary.catalog.apply(broken)
    found = compare(primary.catalog, target.catalog, target.translation)
    assert [each.subject for each in found.records if isinstance(each, SchemaVersion)] == [ORDERS_THERE]
    assert kinds(found.conflicts) == [TOO_LARGE]


def test_subjects_inside_references_are_translated_and_come_first(primary, target):
    primary.register(PAYMENTS, avro("a", name="Inner"))
    inner = Reference(name="Inner", subject=PAYMENTS, version=1)
    primary.register("acme-retail-prod-orders-key", referring("Outer", "Inner"), inner)
    found = compare(primary.catalog, target.catalog, target.translation).records
    assert [(each.subject, each.id) for each in found if isinstance(each, SchemaVersion)] == [
        (PAYMENTS_THERE, 1),
        ("acme-prod-orders-key", 2),
    ]
    assert found[1].content.references == (Reference(name="Inner", subject=PAYMENTS_THERE, version=1),)


def test_deletions_soft_and_for_good_follow(primary, target):
    primary.register(ORDERS, avro("a"))
    primary.register(ORDERS, avro("a", "b?"))
    primary.write(delete_version, ORDERS, "1", permanent=False)
    target.follow(primary.catalog)
    assert [each.deleted for each in target.catalog.versions(ORDERS_THERE, deleted=True)] == [True, False]
    primary.write(delete_version, ORDERS, "1", permanent=True)
    target.follow(primary.catalog)
    assert [each.version for each in target.catalog.versions(ORDERS_THERE, deleted=True)] == [2]


def test_a_subject_deleted_for_good_and_registered_anew_is_written_anew(primary, target):
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    primary.write(delete_subject, ORDERS, permanent=False)
    primary.write(delete_subject, ORDERS, permanent=True)
    primary.register(ORDERS, avro("z"))
    assert target.follow(primary.catalog) == ()
    assert state(target.catalog) == seen_from_there(primary.catalog)
    assert target.catalog.version((ORDERS_THERE, 1)).id == 2


@pytest.mark.parametrize("subject", [ORDERS, PAYMENTS])
def test_an_id_that_the_primary_gave_again_by_hand_is_given_again_there(primary, target, subject):
    primary.append(version(ORDERS, 1, 5, avro("a")))
    target.follow(primary.catalog)
    primary.append(VersionGone(subject=ORDERS, version=1), version(subject, 1, 5, avro("b")))
    assert target.follow(primary.catalog) == ()
    assert target.catalog.contents[5].text == avro("b")


def test_configuration_and_modes_follow_and_are_taken_back(primary, target):
    primary.write(set_config, ORDERS, {"compatibility": "FULL"})
    primary.write(set_config, None, {"compatibility": "NONE"})
    primary.write(set_mode, ORDERS, "READONLY", force=False)
    target.follow(primary.catalog)
    assert target.catalog.config(ORDERS_THERE)["compatibilityLevel"] == "FULL"
    assert target.catalog.config(None)["compatibilityLevel"] == "NONE"
    assert target.catalog.mode(ORDERS_THERE) == "READONLY"
    primary.append(ModeSet(subject=ORDERS, mode=None))
    primary.write(delete_config, ORDERS)
    primary.write(delete_config, None)
    target.follow(primary.catalog)
    assert (target.catalog.configs, target.catalog.modes) == ({}, {})


def test_settings_of_strangers_subjects_stay(primary, target):
    target.strangers(ConfigSet(subject="theirs", fields={"compatibilityLevel": "NONE"}))
    target.strangers(ModeSet(subject="theirs", mode="READONLY"))
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    assert target.catalog.mode("theirs") == "READONLY"
    assert target.catalog.config("theirs")["compatibilityLevel"] == "NONE"


def test_ids_that_are_gone_on_the_primary_are_never_given_by_a_target_that_follows_it_as_primary(primary, target):
    primary.register(ORDERS, avro("a"))
    primary.register(PAYMENTS, avro("b"))
    primary.write(delete_subject, PAYMENTS, permanent=False)
    target.follow(primary.catalog)
    primary.write(delete_subject, PAYMENTS, permanent=True)
    target.follow(primary.catalog)
    target.compact(forget_tombstones=True)
    assert target.catalog.highest_id == 2
    late = WrittenTarget()
    late.follow(primary.catalog)
    assert late.catalog.highest_id == 2
    assert isinstance(compare(primary.catalog, WrittenTarget().catalog, late.translation).records[-1], Noop)


def test_an_id_of_a_stranger_is_never_given_to_another_schema(primary, target):
    target.strangers(version("theirs", 1, 1, "theirs"))
    primary.register(ORDERS, avro("a"))
    primary.register(PAYMENTS, avro("b"))
    found = target.follow(primary.catalog)
    assert kinds(found) == [ID_TAKEN, ONLY_THERE]
    assert (found[0].subject, found[0].version, found[0].schema_id) == (ORDERS_THERE, 1, 1)
    assert target.catalog.contents[1].text == "theirs"
    assert target.catalog.version((ORDERS_THERE, 1)) is None
    assert target.catalog.version((PAYMENTS_THERE, 1)).id == 2
    assert target.follow(primary.catalog) == found


def test_a_version_of_a_stranger_is_never_written_over(primary, target):
    theirs = version(ORDERS_THERE, 1, 77, "theirs")
    target.strangers(theirs)
    primary.register(ORDERS, avro("a"))
    primary.register(ORDERS, avro("a", "b?"))
    assert kinds(target.follow(primary.catalog)) == [VERSION_TAKEN]
    assert target.catalog.version((ORDERS_THERE, 1)) == theirs
    assert target.catalog.version((ORDERS_THERE, 2)).id == 2


def test_what_others_registered_stays_although_the_primary_has_that_schema_elsewhere(primary, target):
    theirs = version("theirs", 1, primary.register(ORDERS, avro("a")), avro("a"))
    target.strangers(theirs)
    assert kinds(target.follow(primary.catalog)) == [ONLY_THERE]
    assert target.catalog.version(("theirs", 1)) == theirs
    assert target.catalog.version((ORDERS_THERE, 1)).id == theirs.id


def test_what_refers_to_a_conflict_waits_for_it(primary, target):
    target.strangers(version("theirs", 1, 1, "theirs"))
    primary.register(PAYMENTS, avro("a", name="Inner"))
    inner = Reference(name="Inner", subject=PAYMENTS, version=1)
    primary.register(ORDERS, referring("Outer", "Inner"), inner)
    assert REFERS_TO_CONFLICT in kinds(target.follow(primary.catalog))
    assert target.catalog.version((ORDERS_THERE, 1)) is None
    target.strangers(VersionGone(subject="theirs", version=1))
    assert target.follow(primary.catalog) == ()
    assert state(target.catalog) == seen_from_there(primary.catalog)


def test_what_refers_to_a_subject_whose_name_is_anothers_there_is_held_back(primary, target):
    # Passes through under the name that the stream's subject has there.
    primary.register(ORDERS_THERE, avro("theirs", name="Inner"))
    primary.register(ORDERS, avro("ours", name="Inner"))
    for subject, inner in (("acme-retail-prod-orders-key", ORDERS_THERE), (PAYMENTS, ORDERS)):
        reference = Reference(name="Inner", subject=inner, version=1)
        primary.register(subject, referring(f"Outer{subject[-3:]}", "Inner"), reference)
    found = compare(primary.catalog, target.catalog, target.translation)
    assert sorted((each.kind, each.subject) for each in found.conflicts) == [
        (NAME_TAKEN, ORDERS_THERE),
        (REFERS_TO_CONFLICT, "acme-prod-orders-key"),
    ]
    target.written(found.records)
    assert sorted(target.catalog.subjects) == sorted([ORDERS_THERE, PAYMENTS_THERE])
    again = compare(primary.catalog, target.catalog, target.translation)
    assert (again.records, again.conflicts) == ((), found.conflicts)


def test_a_subject_that_passes_through_does_not_take_a_streams_name(primary, target):
    primary.register(ORDERS_THERE, avro("a"))
    primary.register(ORDERS, avro("b"))
    found = target.follow(primary.catalog)
    assert [(each.kind, each.subject) for each in found] == [(NAME_TAKEN, ORDERS_THERE)]
    assert target.catalog.version((ORDERS_THERE, 1)).id == 2


def test_a_streams_subject_takes_its_name_from_our_copy_of_another(primary, target):
    primary.register(ORDERS_THERE, avro("a"))
    primary.register(ORDERS_THERE, avro("a", "b?"))
    primary.write(set_config, ORDERS_THERE, {"compatibility": "NONE"})
    target.follow(primary.catalog)
    assert target.catalog.version((ORDERS_THERE, 2)).id == 2
    primary.register(ORDERS, avro("b"))
    found = target.follow(primary.catalog)
    assert [(each.kind, each.subject) for each in found] == [(NAME_TAKEN, ORDERS_THERE)]
    assert [each.id for each in target.catalog.versions(ORDERS_THERE, deleted=True)] == [3]
    assert (target.catalog.configs, target.catalog.overruled) == ({}, set())
    assert target.follow(primary.catalog) == found
    assert compare(primary.catalog, target.catalog, target.translation).records == ()


def test_a_streams_subject_takes_no_name_from_a_stranger(primary, target):
    primary.register(ORDERS_THERE, avro("a"))
    theirs = version(ORDERS_THERE, 2, 77, "theirs")
    target.follow(primary.catalog)
    target.strangers(theirs)
    primary.register(ORDERS, avro("b"))
    primary.register(ORDERS, avro("b", "c?"))
    assert sorted(kinds(target.follow(primary.catalog))) == [NAME_TAKEN, VERSION_TAKEN]
    assert [each.id for each in target.catalog.versions(ORDERS_THERE)] == [2, 77]


def test_a_name_is_that_of_the_stream_which_has_it_there(primary):
    short, long = StreamName("globex", "i", "e", "a"), StreamName("acme", "i", "e", "a-b")
    target = WrittenTarget(Translation("{tenant}-{topic}", "{topic}", [short, long]))
    primary.register("globex-a-b-value", avro("a"))
    target.follow(primary.catalog)
    primary.register("acme-a-b-value", avro("b"))
    found = target.follow(primary.catalog)
    assert [(each.kind, each.subject) for each in found] == [(NAME_TAKEN, "globex-a-b-value")]
    assert [each.id for each in target.catalog.versions("a-b-value")] == [2]


def test_a_stream_that_is_declared_later_takes_its_subjects_along(primary, target):
    primary.register(ORDERS, avro("a"))
    target.translation = Translation(FULL, SHORT, [])
    target.follow(primary.catalog)
    assert list(target.catalog.subjects) == [ORDERS]
    target.translation = Translation(FULL, SHORT, STREAMS)
    assert target.follow(primary.catalog) == ()
    assert list(target.catalog.subjects) == [ORDERS_THERE]


def test_a_primary_that_forgot_its_schemas_takes_none_away(primary, target):
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    found = target.follow(WrittenLog().catalog)
    assert kinds(found) == [ONLY_THERE]
    assert target.catalog.version((ORDERS_THERE, 1)).id == 1


def test_a_deletion_is_known_by_its_tombstone_when_its_version_is_compacted_away(primary, target):
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    primary.write(delete_subject, ORDERS, permanent=False)
    primary.write(delete_subject, ORDERS, permanent=True)
    last = {entry[0]: entry for entry in entries_of(primary)}
    target.follow(read(list(last.values())))
    assert not target.catalog.subjects


def test_the_old_primary_becomes_a_target_with_all_that_it_has(primary, target):
    """Schemas that both have are the new primary's from now on; those only the old one has stay."""
    inner = Reference(name="Inner", subject=PAYMENTS, version=1)
    primary.register(PAYMENTS, avro("a", name="Inner"))
    primary.register(ORDERS, referring("Outer", "Inner"), inner)
    primary.write(set_config, ORDERS, {"compatibility": "FULL"})
    target.follow(primary.catalog)
    new, old = target, WrittenTarget(TO_FULL)
    old.entries = entries_of(primary)
    assert old.follow(new.catalog) == ()
    assert state(old.catalog) == state(primary.catalog)
    old.strangers(version("late-value", 1, 9, json.dumps("string")))
    new.strangers(version(ORDERS_THERE, 1, 2, referring("Outer", "Inner"), deleted=True, references=()))
    found = old.follow(new.catalog)
    assert [(each.kind, each.subject) for each in found] == [(ONLY_THERE, "late-value")]
    assert old.catalog.version((ORDERS, 1)).deleted
    assert old.catalog.version(("late-value", 1)) is not None


def test_what_the_old_primary_had_is_deleted_with_the_new_ones(primary, target):
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    new, old = target, WrittenTarget(TO_FULL)
    old.entries = entries_of(primary)
    assert old.follow(new.catalog) == ()
    new.strangers(VersionGone(subject=ORDERS_THERE, version=1))
    assert old.follow(new.catalog) == ()
    assert not old.catalog.subjects


def test_an_id_that_a_stranger_was_quicker_to_give_leaves_no_record_of_ours_behind(primary, target):
    primary.register(ORDERS, avro("a"))
    late = compare(primary.catalog, target.catalog, target.translation).records
    target.strangers(version("theirs", 1, 1, "theirs"))
    target.written(late)
    assert target.catalog.overruled == {(ORDERS_THERE, 1)}
    assert ID_TAKEN in kinds(target.follow(primary.catalog))
    assert target.catalog.overruled == set()
    assert target.catalog.contents[1].text == "theirs"
    assert compare(primary.catalog, target.catalog, target.translation).records == ()


def test_a_copy_whose_place_has_gone_to_a_conflict_does_not_stay(primary, target):
    primary.register(ORDERS, avro("a"))
    target.follow(primary.catalog)
    target.strangers(version("theirs", 1, 2, "theirs"))
    primary.write(delete_subject, ORDERS, permanent=False)
    primary.write(delete_subject, ORDERS, permanent=True)
    primary.register(ORDERS, avro("z"))
    assert ID_TAKEN in kinds(target.follow(primary.catalog))
    assert list(target.catalog.subjects) == ["theirs"]
