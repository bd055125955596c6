"""Choice of the logs to read in the next run: short ones do not wait for long ones, and no log starves."""

from __future__ import annotations

from workers.offsets.batch import AskedLog, Turns

MOST = 1_000


def asked(**lengths):
    found = {}
    for name, length in lengths.items():
        one = AskedLog(log=("cluster-1", name, 0), topic="t", incarnations=((0, 1),), asked={length}, end=length)
        one.make_plan(10**6)
        found[one.log] = one
    return found


def names(logs):
    return [one.log[1] for one in logs]


def test_short_ones_come_first():
    assert names(Turns(MOST).next(asked(long=5_000, short=10, middle=900))) == ["long"]
    turns = Turns(MOST)
    assert names(turns.next(asked(short=10, long=5_000, middle=900))) == ["short", "middle", "long"]
    assert names(turns.next({})) == []


def test_a_long_one_is_read_though_short_ones_always_come():
    turns = Turns(MOST)
    first = names(turns.next(asked(a=600, b=600, long=50_000)))
    assert first == ["a", "b"]
    assert names(turns.next(asked(c=600, long=50_000, d=600))) == ["long"]
    assert names(turns.next(asked(e=600, c=600, d=600))) == ["c", "e"], "c has waited since the run before"


def test_two_long_ones_take_turns():
    turns = Turns(MOST)
    read = [name for _ in range(4) for name in names(turns.next(asked(one=5_000, two=6_000)))]
    assert read == ["one", "two", "one", "two"]
