"""Random histories of the primary and interrupted distribution: targets end equal, others' schemas stay."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from backend.domain.schemas.schema_conflicts import REFERS_TO_CONFLICT
from backend.registry.catalog import Catalog
from backend.registry.deleting import delete_subject, delete_version
from backend.registry.distribution import compare
from backend.registry.records import Reference, SchemaVersion
from backend.registry.refusals import RegistryError
from backend.registry.settings_changes import delete_config, set_config, set_mode
from tests.support.schemas.written_log import WrittenLog, avro, referring, state
from tests.support.schemas.written_target import (
    ORDERS,
    ORDERS_THERE,
    PAYMENTS,
    WrittenTarget,
    entries_of,
    read,
    seen_from_there,
    version,
)

SUBJECTS = (ORDERS, PAYMENTS, "acme-retail-prod-orders-eu-com.acme.Order", "com.acme.Order")
STEPS = 25


def step(source: random.Random, log: WrittenLog, subjects: Sequence[str] = SUBJECTS) -> None:
    """Do a random step of a client of the primary; many are refused."""
    subject, permanent = source.choice(subjects), source.random() < 0.5
    number = str(source.randint(1, 3))
    try:
        match source.randint(0, 9):
            case 0 | 1 | 2 | 3:
                log.register(subject, avro("a", *(f"{name}?" for name in source.sample("bcd", 2)), name="Inner"))
            case 4:
                other = source.choice(subjects)
                reference = Reference(name="Inner", subject=other, version=source.randint(1, 2))
                log.register(subject, referring("Outer", "Inner"), reference)
            case 5:
                log.write(delete_version, subject, number, permanent=permanent)
            case 6 | 7:
                log.write(delete_subject, subject, permanent=permanent)
            case 8:
                whose = source.choice((None, subject))
                log.write(set_config, whose, {"compatibility": source.choice(("NONE", "FULL"))})
                log.write(set_mode, whose, "READWRITE", force=True)
            case 9:
                log.write(delete_config, source.choice((None, subject)))
    except RegistryError:
        pass


@given(st.integers(0, 2**32))
def test_targets_end_equal_however_often_the_distributor_is_cut_off(seed: int) -> None:
    source, log, target = random.Random(seed), WrittenLog(), WrittenTarget()
    for _ in range(STEPS):
        step(source, log)
        if source.random() < 0.4:
            target.follow(read(entries_of(log)), most=source.randint(0, 4))
        if source.random() < 0.1:
            target.compact(forget_tombstones=True)
    assert target.follow(log.catalog) == ()
    assert state(target.catalog) == seen_from_there(log.catalog)
    assert target.catalog.highest_id == log.catalog.highest_id
    again = compare(log.catalog, target.catalog, target.translation)
    assert (again.records, again.conflicts) == ((), ())


@given(st.integers(0, 2**32))
@example(5301540)  # the highest id was noted again and again, since what had it was not deleted yet
def test_every_beginning_of_what_is_written_is_sound(seed: int) -> None:
    """No version refers to one that is not there (yet), unless it does so on the primary."""
    source, log, target = random.Random(seed), WrittenLog(), WrittenTarget()
    for _ in range(2):
        target.follow(log.catalog)
        for _ in range(STEPS):
            step(source, log)
    due = compare(log.catalog, target.catalog, target.translation).records
    while due:
        target.written(due[:1])
        there = target.catalog
        for each in there.all_versions():
            for reference in each.content.references:
                assert there.version((reference.subject, reference.version)) is not None
        before, due = due, compare(log.catalog, target.catalog, target.translation).records
        assert due != before, "written down for nothing"


@given(st.integers(0, 2**32))
def test_strangers_lose_nothing(seed: int) -> None:
    source, log, target = random.Random(seed), WrittenLog(), WrittenTarget()
    theirs: dict[tuple[str, int], SchemaVersion] = {}
    for count in range(STEPS):
        step(source, log)
        if source.random() < 0.3:
            subject = source.choice(("theirs", ORDERS_THERE, "com.acme.Order"))
            new = version(subject, source.randint(1, 4), source.randint(1, 6), f"theirs {count}")
            there = target.catalog
            if there.version((subject, new.version)) is None and new.id not in there.contents:
                target.strangers(new)
                theirs[subject, new.version] = new
        target.follow(read(entries_of(log)), most=source.choice((None, 1, 3)))
        there = target.catalog
        for key, each in theirs.items():
            assert there.version(key) == each
            assert there.contents[each.id].text == each.content.text
    conflicts = target.follow(log.catalog)
    assert target.follow(log.catalog) == conflicts
    assert not compare(log.catalog, target.catalog, target.translation).records


def refer_to(catalog: Catalog, subject: str) -> set[tuple[str, int]]:
    """Return the versions that reference any of a subject's, directly or not."""
    found: set[tuple[str, int]] = set()
    reached = catalog.versions(subject, deleted=True)
    while reached:
        new = catalog.referrers((reached[-1].subject, reached.pop().version), deleted=True)
        reached += [each for each in new if (each.subject, each.version) not in found]
        found |= {(each.subject, each.version) for each in new}
    return found


@given(st.integers(0, 2**32))
@example(3747)  # a number was given again and its version deleted again before the target had heard of either
def test_a_streams_subject_is_there_whoever_wants_its_name(seed: int) -> None:
    source, log, target = random.Random(seed), WrittenLog(), WrittenTarget()
    for _ in range(STEPS):
        step(source, log, (ORDERS, ORDERS_THERE, PAYMENTS))
        if source.random() < 0.4:
            target.follow(read(entries_of(log)), most=source.randint(0, 4))
    conflicts = target.follow(log.catalog)
    both = ORDERS in log.catalog.subjects and ORDERS_THERE in log.catalog.subjects
    held_back = refer_to(log.catalog, ORDERS_THERE) if both else set()
    refused = {(each.subject, each.version) for each in conflicts if each.kind == REFERS_TO_CONFLICT}
    assert refused <= {(target.translation.translate(subject), number) for subject, number in held_back}
    assert {each.subject for each in conflicts if each.kind != REFERS_TO_CONFLICT} <= {ORDERS_THERE}
    wanted = ORDERS if ORDERS in log.catalog.subjects else ORDERS_THERE
    all_of_it = log.catalog.versions(wanted, deleted=True)
    ids = [each.id for each in target.catalog.versions(ORDERS_THERE, deleted=True)]
    # What was copied before somebody else had the name stays.
    assert set(ids) <= {each.id for each in all_of_it}
    assert {each.id for each in all_of_it if (wanted, each.version) not in held_back} <= set(ids)
    assert both or ids == [each.id for each in all_of_it]
    assert target.follow(log.catalog) == conflicts
    assert not compare(log.catalog, target.catalog, target.translation).records
