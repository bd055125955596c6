"""Late reads: records that groups read on the source after their offsets were translated."""

from __future__ import annotations

from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.commit_rules import CommittedOffset
from backend.domain.offsets.offset_map import GroupPartition
from backend.domain.switch.switch_report import Found, PhaseTimes, report
from tests.unit.switch.test_outcome import carried
from workers.switches.closing import MEMBERS, OWN_PROGRESS
from workers.switches.read_on import since, translated_commits

AT = "2026-01-01T00:00:00+00:00"
ORDERS = "acme/retail/prod/orders"
A, B = "acme/retail/prod/a", "acme/retail/prod/b"
ENDS = {(ORDERS, 0): 12, (ORDERS, 1): 30}
OURS = commit_metadata.encode(
    CommitMark(flags=1, timestamp_ms=5, committed_at_ms=6, generation=2, cluster="cluster-5")
)


def group_partition(group: str, partition: int = 0) -> GroupPartition:
    return carried(group, 0, partition).group_partition


def test_what_a_group_has_committed_since_is_told_the_most_first():
    noted = translated_commits(
        [carried("a", 0), carried("a", 0, 1), carried("b", 0), carried("c", 0, refused=MEMBERS)]
    )
    assert noted == {A: {ORDERS: {"0": 7, "1": 7}}, B: {ORDERS: {"0": 7}}}
    now = {
        group_partition("a"): CommittedOffset(offset=9),
        group_partition("a", 1): CommittedOffset(offset=7),
        group_partition("b"): CommittedOffset(offset=17),
        group_partition("c"): CommittedOffset(offset=90),
        group_partition("new"): CommittedOffset(offset=90),
    }
    assert since(noted, now, ENDS, {}) == [
        {"group": B, "stream": ORDERS, "partition": 0, "records": 10},
        {"group": A, "stream": ORDERS, "partition": 0, "records": 5},
    ], "it may have read all that there is, and committed only some of it"


def test_what_was_set_for_it_after_commits_elsewhere_it_has_not_read_there():
    noted = translated_commits([carried("a", 0)])
    assert (
        noted is not None
        and since(noted, {group_partition("a"): CommittedOffset(offset=90, metadata=OURS)}, ENDS, {}) == []
    )
    assert since(noted, {}, ENDS, {}) == [], "its group is gone"


def test_one_that_was_seen_at_work_may_have_read_up_to_there_without_a_commit():
    noted = translated_commits([carried("a", 0), carried("b", 0), carried("b", 0, 1)])
    assert noted is not None
    found = since(noted, {}, ENDS, {B: {(ORDERS, 0): 10, (ORDERS, 1): 7}})
    assert found == [{"group": B, "stream": ORDERS, "partition": 0, "records": 3}]


def test_one_whose_progress_stood_there_already_is_noted_too():
    """After a reverse, the group's later reads are re-read like those of any other."""
    assert translated_commits([carried("a", 0, refused=OWN_PROGRESS)]) == {A: {ORDERS: {"0": 7}}}


def test_the_list_that_is_noted_has_an_end_and_is_all_or_nothing():
    assert translated_commits([carried("a", 0, number) for number in range(20_001)]) is None


def test_the_report_counts_it_with_what_comes_again():
    phases = [
        PhaseTimes(name="closing", started_at=AT, ended_at=AT, measured={"re_read_bound": 4}),
        PhaseTimes(name="verifying", started_at=AT, ended_at=None, measured={}),
    ]
    read_on = [{"group": "g", "stream": "s", "partition": 0, "records": 3}]
    some = {
        "clients": 1,
        "late": (),
        "silent": (),
        "silent_in_all": 0,
        "left_behind": (),
        "left_behind_in_all": 0,
        "stray_records": 0,
    }
    assert report(phases, (), Found(**some, read_on=read_on))["re_read_bound"] == 7
    unknown = report(phases, (), Found(**some, read_on=None))
    assert (unknown["re_read_bound"], unknown["read_on"]) == (None, None)
