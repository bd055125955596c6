"""The offset from which a group continues on another cluster: no gap, and no more re-reads than the bound says."""

from __future__ import annotations

import random

import pytest

from backend.domain.offsets import target_log
from backend.domain.offsets.target_log import ChosenOffset, TargetLog
from backend.domain.records.origin import merge


def interleaved(source, sequences):
    """Draw a log: each origin's records in their order, with holes between (markers)."""
    left = {origin: list(rows) for origin, rows in sequences.items()}
    log, place = [], source.choice((0, 17))
    while any(left.values()):
        origin = source.choice([each for each, rows in left.items() if rows])
        log.append((place, origin, left[origin].pop(0)))
        place += source.choice((1, 1, 1, 3))
    return log


def born(source):
    sequences = {}
    for origin in range(1, source.randint(2, 5)):
        incarnation, offset, rows = 1, -1, []
        for _ in range(source.randint(0, 25)):
            if source.random() < 0.05:
                incarnation, offset = incarnation + 1, -1
            offset += source.choice((1, 1, 2))
            rows.append((incarnation, offset))
        sequences[origin] = rows
    return sequences


def reached_by(rows):
    """Return the vector of records."""
    return merge({origin: reached} for _, origin, reached in rows)


@pytest.mark.parametrize("seed", range(300))
def test_no_gap_and_the_bound_holds(seed):
    source = random.Random(seed)
    sequences = born(source)
    there, here = interleaved(source, sequences), interleaved(source, sequences)
    read = there[: source.randint(0, len(there))]
    # The log where it was read was compacted: records produced there are gone, up to the last one.
    own = source.choice(sorted(sequences))
    left = [row for row in read if row[1] != own or source.random() < (0.5, 1, 1)[seed % 3]]
    gone = {row[1:] for row in read} - {row[1:] for row in left}
    vector, passed = reached_by(left), reached_by(read)
    passed = {own: passed[own]} if own in vector and vector[own][0] == passed[own][0] else {}
    reads = merge([vector, passed])
    done = {(origin, reached) for _, origin, reached in read}
    arrived = source.choice((0, source.randint(0, len(here))))
    # Where only records of an earlier incarnation are left, nothing is known of those that are gone.
    unknown = {each for each in done if each[0] == own and each[1] > reads.get(own, (-1, -1))}
    log, walked = TargetLog(here[0][0] if here else 0, {}), here[:arrived]
    last = None
    while True:
        for row in walked:
            log.add(*row)
        if source.random() < 0.5:
            # Only records that the group has read may be dropped.
            log.forget_before(min(log.first_uncovered(reads), source.randint(log.first, log.end)))
        assert log.reaches_back_to(reads)
        chosen = target_log.exact(vector, reads, log)
        skipped = [(origin, reached) for place, origin, reached in here if place < chosen.offset]
        assert set(skipped) <= done, f"seed {seed}: skipped what was never read"
        again = [row for row in here if row[0] >= chosen.offset and (row[1], row[2]) in done]
        # Records that are gone there and arrive here later by another way are counted once they have arrived.
        uncounted = unknown | ({(row[1], row[2]) for row in here[arrived:]} & gone)
        counted = [row for row in again if (row[1], row[2]) not in uncounted]
        assert chosen.re_read_bound is None or len(counted) <= chosen.re_read_bound, f"seed {seed}"
        assert chosen.re_read_bound is not None or any(reached[0] > 1 for reached in vector.values())
        assert chosen.settled == ({*vector.items()} <= {row[1:] for row in here[:arrived]})
        assert last is None or chosen.offset >= last, "as the target catches up the group is never moved back"
        early = source.randint(0, chosen.offset)
        margin = target_log.with_margin(chosen, early)
        assert margin.offset == early
        again = [row for row in here if row[0] >= early and (row[1], row[2]) in done - uncounted]
        assert margin.re_read_bound is None or len(again) <= margin.re_read_bound
        assert target_log.with_margin(chosen, chosen.offset + 5) == chosen
        last = chosen.offset
        if arrived == len(here):
            break
        more = source.randint(1, 10)
        walked, arrived = here[arrived : arrived + more], min(len(here), arrived + more)
    assert chosen.settled
    if len(sequences) == 1 and not unknown:
        assert chosen.re_read_bound == 0, "with one producing cluster nothing comes again"


def test_who_has_read_what_does_not_say_where_it_was_born_nobody_can_tell():
    log = TargetLog(0, {})
    log.add(0, 1, (1, 0))
    log.add(1, None, None)
    log.add(2, 1, (1, 5))
    chosen = target_log.exact({1: (1, 5)}, {1: (1, 5)}, log)
    assert (chosen.offset, chosen.re_read_bound, chosen.settled) == (1, None, True)
    log.forget_before(2)
    chosen = target_log.exact({1: (1, 5)}, {1: (1, 5)}, log)
    assert (chosen.offset, chosen.re_read_bound) == (3, 0)


def test_replays_do_not_hold_it_up():
    log = TargetLog(0, {})
    log.add(0, 1, (1, 0))
    log.add(2, 1, (1, 5))
    log.add(3, 1, (1, 3))  # a replayed dead letter
    assert log.first_uncovered({1: (1, 5)}) == 4
    assert log.first_uncovered({1: (1, 4)}) == 2
    assert target_log.exact({1: (1, 4)}, {1: (1, 4)}, log) == ChosenOffset(offset=2, re_read_bound=1, settled=True)
    log.scanned_to(9)
    assert log.first_uncovered({1: (1, 5)}) == 9


def test_nobody_is_sent_to_what_is_gone():
    log = TargetLog(0, {})
    for number in range(10):
        log.add(number, 1, (1, number))
    assert target_log.exact({1: (1, 3)}, {1: (1, 3)}, log, 6) == ChosenOffset(
        offset=6, re_read_bound=0, settled=True
    )
    assert target_log.exact({1: (1, 8)}, {1: (1, 8)}, log, 6).offset == 9


def test_what_is_not_all_that_it_has_read_bounds_nothing():
    log = TargetLog(0, {})
    log.add(0, 1, (1, 0))
    log.add(1, 2, (1, 0))
    assert target_log.exact({1: (1, 0)}, {1: (1, 0)}, log, whole=False).re_read_bound is None


def test_a_bound_can_be_kept_whatever_others_say():
    far = dict.fromkeys(range(1, 9), (1, 2**63 - 1))
    bound = target_log.exact(far, far, TargetLog(0, {})).re_read_bound
    assert bound is not None and bound < 2**63
