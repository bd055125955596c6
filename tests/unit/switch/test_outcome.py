"""Translated offsets as summarized in a switch's report."""

from __future__ import annotations

from backend.domain.offsets.offset_map import GroupPartition
from workers.switches.closing import MEMBERS, OWN_PROGRESS, TranslatedOffset
from workers.switches.outcome import NAMED, translation_summary


def carried(group: str, bound: int | None, partition: int = 0, refused: str | None = None) -> TranslatedOffset:
    group_partition = GroupPartition(
        tenant="acme", instance="retail", environment="prod", stream="orders", partition=partition, group=group
    )
    return TranslatedOffset(
        group_partition=group_partition,
        source_offset=7,
        target_offset=5,
        re_read_bound=bound,
        settled=True,
        refused=refused,
    )


def test_what_comes_again_is_named_by_group_and_partition_the_worst_first():
    found = translation_summary(
        [carried("a", 0), carried("b", 3), carried("b", 9, 1), carried("c", None), carried("d", 50, 0, MEMBERS)]
    )
    assert (found["groups"], found["offsets"], found["re_read_bound"]) == (3, 4, None)
    assert [
        (each["group"], each["stream"], each["partition"], each["records"]) for each in found["read_again"]
    ] == [
        ("acme/retail/prod/c", "acme/retail/prod/orders", 0, None),
        ("acme/retail/prod/b", "acme/retail/prod/orders", 1, 9),
        ("acme/retail/prod/b", "acme/retail/prod/orders", 0, 3),
    ]
    assert found["refused"] == [{"group": "acme/retail/prod/d", "reason": MEMBERS}]


def test_where_nothing_comes_again_nobody_is_named_and_the_list_has_an_end():
    found = translation_summary([carried("a", 0), carried("b", 4, 0, OWN_PROGRESS)])
    assert (found["re_read_bound"], found["read_again"], found["refused"]) == (0, [], [])
    assert (
        len(translation_summary([carried("a", 1, number) for number in range(NAMED + 5)])["read_again"]) == NAMED
    )


def test_all_that_were_refused_are_counted_and_some_are_named():
    found = translation_summary([carried(f"g{number}", 0, 0, "no coordinator") for number in range(NAMED + 5)])
    assert (len(found["refused"]), found["refused_in_all"]) == (NAMED, NAMED + 5)
