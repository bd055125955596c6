"""Groups resume on the new cluster at the first record that they have not read on the old one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.cluster_requests.offset_lock import setting_offsets
from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.offset_map import LATEST_MS, Progress
from backend.domain.offsets.target_log import ChosenOffset
from backend.eventlog.held_lock import LockLost
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import OffsetsPending
from backend.kafka.groups.group_offsets import GroupOffsets, Setting
from tests.eventually import eventually
from tests.kafka.switch.by_hand import ByHand
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.offsets.applied import State
from workers.offsets.offset_choice import Resumption
from workers.offsets.offset_setter import DueOffset, OffsetSetter
from workers.switches.closing import OWN_PROGRESS, SOME_STAY, GroupClosing, TranslatedOffset

ENVIRONMENT = ("acme", "retail", "prod")


@pytest.fixture
def mixed(hand: ByHand) -> ByHand:
    """Partition 0 has records of b before those of a on a, and behind them on c."""
    hand.produce("b", 20, headers=[("from", b"b")])
    hand.copy(("b", 2))
    hand.produce("a", 30)
    hand.copy(("a", 2), ("b", 1))
    return hand


@pytest.fixture
def closing(hand: ByHand) -> GroupClosing:
    return closing_of(hand)


def closing_of(hand: ByHand, source: str = "a", target: str = "c") -> GroupClosing:
    names = (hand.name(source), hand.name(target))
    return GroupClosing(hand.view(), *names, [ENVIRONMENT], [hand.stream])


def stands(hand: ByHand, letter: str, name: str, partition: int = 0) -> tuple[int, str]:
    """Return (offset, metadata) of a group; -1001 if there is none."""
    admin = AdminClient({"bootstrap.servers": hand.servers(letter)})
    wanted = ConsumerGroupTopicPartitions(hand.group(name), [TopicPartition(hand.topic(letter), partition)])
    (answer,) = admin.list_consumer_group_offsets([wanted]).values()
    (found,) = answer.result(DEADLINE_SECONDS).topic_partitions
    return found.offset, found.metadata or ""


def read_on(hand: ByHand, letter: str, name: str, count: int, partition: int = 0) -> list[str]:
    """Return the next records of a group, from its committed offset."""
    consumer = hand.consumer(letter, name)
    offset, _ = stands(hand, letter, name, partition)
    consumer.assign([TopicPartition(hand.topic(letter), partition, offset)])
    found: list[str] = []
    while len(found) < count:
        (message,) = eventually(lambda: consumer.consume(1, 1.0), "a record")
        assert message.error() is None
        origin = "b" if dict(message.headers() or ()).get("from") else "a"
        found.append(f"{origin}{message.value().decode()}")
    consumer.close()
    return found


def by_group(found: list[TranslatedOffset]) -> dict[str, TranslatedOffset]:
    return {one.group_partition.group[:4]: one for one in found}


def offset_behind(hand: ByHand, letter: str, count: int) -> int:
    """Return the offset behind so many records of partition 0."""
    consumer = hand.consumer(letter, "look", **{"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(hand.topic(letter), 0, 0)])
    last = None
    for _ in range(count):
        (last,) = eventually(lambda: consumer.consume(1, 1.0), "a record")
    consumer.close()
    assert last is not None
    return last.offset() + 1


def test_groups_at_the_end_and_behind_go_on_with_what_they_have_not_read(mixed: ByHand, closing: GroupClosing):
    closing.warm_up()
    for name, read in (("tips", 50), ("lags", 35), ("none", 0)):
        mixed.commit("a", name, offset_behind(mixed, "a", read) if read else 0)
    mixed.produce("a", 1, headers=[("last", b"")])
    mixed.copy(("a", 2), ("b", 1))
    found = by_group(closing.translate(3, 6))
    assert set(found) == {"tips", "lags", "none"}, "a group that never committed has nothing to be carried"
    for one in found.values():
        assert (one.refused, one.settled, one.re_read_bound) == (None, True, 0), one
    assert read_on(mixed, "c", "tips", 1) == ["a0"]
    assert read_on(mixed, "c", "lags", 16) == [f"a{number}" for number in range(15, 30)] + ["a0"]
    assert found["none"].target_offset == 0
    mark = commit_metadata.decode(stands(mixed, "c", "tips")[1])
    assert mark is not None
    assert (mark.flags, mark.generation, mark.cluster) == (6, 3, mixed.name("a"))
    assert closing.members().on_source == () == closing.members().on_target


def test_records_that_lie_in_another_order_there_are_not_skipped(hand: ByHand, closing: GroupClosing):
    """The group has read b's records and none of a's on a; on c those of a are first."""
    hand.produce("a", 5)
    hand.copy(("a", 2))
    hand.produce("b", 5, headers=[("from", b"b")])
    there = closing_of(hand, "b", "a")
    hand.commit("b", "some", offset_behind(hand, "b", 8))
    hand.copy(("b", 2))
    (one,) = there.translate(2, 1)
    assert (one.re_read_bound, one.settled) == (0, True)
    assert read_on(hand, "a", "some", 2) == ["b3", "b4"]


@pytest.mark.nightly  # test_who_has_closed repeats it while others close
def test_repeated_it_gives_the_same(mixed: ByHand, closing: GroupClosing):
    mixed.commit("a", "some", offset_behind(mixed, "a", 33))
    first = closing.translate(2, 6)
    stood = stands(mixed, "c", "some")
    assert closing.translate(2, 6) == first
    # As after a crash, in a process without cached facts.
    other = closing_of(mixed)
    assert other.translate(2, 6) == first
    assert stands(mixed, "c", "some")[0] == stood[0]


def test_a_group_that_is_at_work_on_the_target_is_left_alone_and_named(mixed: ByHand, closing: GroupClosing):
    at = offset_behind(mixed, "a", 33)
    for name in ("busy", "idle"):
        mixed.commit("a", name, at)
    busy = mixed.consumer("c", "busy", **{"auto.offset.reset": "latest", "client.id": "somebody"})
    busy.subscribe([mixed.topic("c")])
    eventually(lambda: busy.poll(0.2) or busy.assignment(), "it has joined")
    (there,) = closing.members().on_target
    assert (there.group, [member.client_id for member in there.members]) == (f"busy{mixed.mark}", ["somebody"])
    found = by_group(closing.translate(2, 6))
    assert found["busy"].target_offset is None and "members" in (found["busy"].refused or "")
    assert found["idle"].refused is None
    assert stands(mixed, "c", "busy")[0] < 0
    busy.close()


@pytest.mark.nightly  # members on the source are named in test_who_has_closed and in the plan
def test_who_has_not_closed_on_the_source_is_named(mixed: ByHand, closing: GroupClosing):
    still = mixed.consumer("a", "still", **{"auto.offset.reset": "earliest", "client.id": "not-yet"})
    still.subscribe([mixed.topic("a")])
    eventually(lambda: still.poll(0.2) or still.assignment(), "it has joined")
    (one,) = closing.members().on_source
    assert [(member.client_id, bool(member.host)) for member in one.members] == [("not-yet", True)]
    still.close()
    eventually(lambda: closing.members().on_source == (), "it has left")


def test_who_has_closed_is_taken_along_while_others_close(mixed: ByHand, closing: GroupClosing, monkeypatch):
    """Offsets that are set already are not set again, unless the group has committed since."""
    asked, setting = [], GroupOffsets.set
    monkeypatch.setattr(
        GroupOffsets, "set", lambda self, wanted: (asked.append(set(wanted)), setting(self, wanted))[1]
    )
    for name in ("idle", "back"):
        mixed.commit("a", name, offset_behind(mixed, "a", 33))
    still = mixed.consumer("a", "last", **{"auto.offset.reset": "earliest"})
    still.subscribe([mixed.topic("a")])
    eventually(lambda: still.poll(0.2) or still.assignment(), "it has joined")
    still.commit(offsets=[TopicPartition(mixed.topic("a"), 0, offset_behind(mixed, "a", 20))], asynchronous=False)
    early = by_group(closing.translate(2, 6, some_stay=True))
    assert {name: one.refused for name, one in early.items()} == {"idle": None, "back": None, "last": SOME_STAY}
    assert stands(mixed, "c", "last")[0] == -1001
    still.commit(offsets=[TopicPartition(mixed.topic("a"), 0, offset_behind(mixed, "a", 40))], asynchronous=False)
    still.close()
    mixed.commit("a", "back", offset_behind(mixed, "a", 45))
    found = by_group(closing.translate(2, 6))
    assert {name: one.refused for name, one in found.items()} == {"idle": None, "back": None, "last": None}
    assert found["idle"] == early["idle"]
    assert asked == [{mixed.group("idle"), mixed.group("back")}, {mixed.group("back"), mixed.group("last")}]
    for name, behind in (("idle", 33), ("back", 45), ("last", 40)):
        assert found[name].source_offset == offset_behind(mixed, "a", behind)
        assert stands(mixed, "c", name)[0] == found[name].target_offset


@pytest.mark.nightly  # test_target_log, with a mutant
def test_a_commit_before_the_beginning_of_the_log(mixed: ByHand, closing: GroupClosing):
    mixed.commit("a", "late", offset_behind(mixed, "a", 25))
    admin = AdminClient({"bootstrap.servers": mixed.servers("a")})
    (gone,) = admin.delete_records([TopicPartition(mixed.topic("a"), 0, offset_behind(mixed, "a", 40))]).values()
    gone.result(DEADLINE_SECONDS)
    (one,) = closing.translate(2, 6)
    assert one.refused is None and one.re_read_bound is None, "what it has read is gone, and nobody had looked"
    assert "a5" in read_on(mixed, "c", "late", 30), "the first that it has not read is not skipped"


@pytest.mark.nightly  # markers at the end: test_target_log, test_hard_cases
def test_a_commit_behind_which_only_markers_lie(hand: ByHand, closing: GroupClosing):
    hand.produce("a", 5)
    hand.transaction("a", 3).abort_transaction(DEADLINE_SECONDS)
    hand.transaction("a", 3).commit_transaction(DEADLINE_SECONDS)
    hand.copy(("a", 2), ("b", 1))
    end = AdminClient({"bootstrap.servers": hand.servers("a")})
    assert end is not None
    hand.commit("a", "ends", 13)
    (one,) = closing.translate(2, 6)
    assert (one.source_offset, one.settled, one.re_read_bound) == (13, True, 0)
    hand.produce("a", 1)
    hand.copy(("a", 2), ("b", 1))
    assert read_on(hand, "c", "ends", 1) == ["a0"]


@pytest.mark.nightly  # another order of the same two commits
def test_what_a_committer_had_set_for_progress_made_on_the_target_is_left_to_it(
    mixed: ByHand, closing: GroupClosing
):
    """The group has never committed on the source itself."""
    offsets = GroupOffsets(client_config(mixed.servers("a"), {}))
    mark = CommitMark(flags=1, timestamp_ms=1, committed_at_ms=5, generation=1, cluster=mixed.name("c"))
    place = (mixed.topic("a"), 0)
    setting = Setting(offset=7, metadata=commit_metadata.encode(mark))
    assert offsets.set({mixed.group("back"): {place: setting}}) == {(mixed.group("back"), place): None}
    mixed.commit("c", "back", 4)
    (one,) = closing.translate(2, 6)
    assert one.target_offset is None and one.refused == OWN_PROGRESS
    assert stands(mixed, "c", "back") == (4, "")


@pytest.mark.nightly  # another order of the same two commits
def test_an_old_commit_on_the_target_is_no_progress_over_what_the_group_has_done_elsewhere_since(
    mixed: ByHand, closing: GroupClosing
):
    """The target's committer has not replaced the commit yet; the source's has."""
    offsets = GroupOffsets(client_config(mixed.servers("a"), {}))
    mark = CommitMark(flags=1, timestamp_ms=1, committed_at_ms=10**12, generation=5, cluster=mixed.name("b"))
    at = offset_behind(mixed, "a", 28)
    setting = Setting(offset=at, metadata=commit_metadata.encode(mark))
    offsets.set({mixed.group("old"): {(mixed.topic("a"), 0): setting}})
    mixed.commit("c", "old", 4)
    (one,) = closing.translate(6, 6)
    assert (one.refused, one.source_offset) == (None, at)
    assert stands(mixed, "c", "old")[0] == one.target_offset != 4


def test_progress_made_on_the_target_that_is_not_there_any_more_is_carried_over(
    mixed: ByHand, closing: GroupClosing
):
    """An empty group's commit expires; it would start by `auto.offset.reset`, and skip or read all."""
    mixed.commit("c", "back", offset_behind(mixed, "c", 40))
    (went,) = closing_of(mixed, "c", "a").translate(2, 6)
    assert went.refused is None
    admin = AdminClient({"bootstrap.servers": mixed.servers("c")})
    (gone,) = admin.delete_consumer_groups([mixed.group("back")]).values()
    gone.result(DEADLINE_SECONDS)
    (one,) = closing.translate(3, 6)
    assert (one.refused, one.target_offset is None) == (None, False)
    mixed.produce("a", 1, headers=[("last", b"")])
    mixed.copy(("a", 2), ("b", 1))
    assert read_on(mixed, "c", "back", 11)[-1] == "a0"


def test_without_origins_the_margin_is_left(hand: ByHand):
    hand.settings = hand.settings.model_copy(update={"origin_header": False})
    hand.produce("a", 10, timestamp=1_795_000_000_000)
    hand.produce("a", 10, timestamp=1_795_000_600_000)
    hand.copy(("a", 2), ("b", 1))
    hand.commit("a", "some", offset_behind(hand, "a", 15))
    closing = closing_of(hand)
    (one,) = closing.translate(2, 6)
    assert (one.refused, one.re_read_bound) == (None, None)
    assert read_on(hand, "c", "some", 1) == ["a0"]
    assert (one.target_offset or 0) >= 10, "the margin of a minute before the last one that it has read"


def test_a_committer_that_was_choosing_meanwhile_takes_nothing_back(mixed: ByHand, closing: GroupClosing):
    """The committer had read an older offset, for which progress with a margin was new."""
    mixed.commit("a", "tips", offset_behind(mixed, "a", 50))
    group_partition = next(iter(by_group(closing.translate(2, 6)).values())).group_partition
    early = Progress(timestamp_ms=1, committed_at_ms=LATEST_MS, generation=2, vector=None, offset=1)
    work = DueOffset(
        group_partition=group_partition, group=mixed.group("tips"), topic=mixed.topic("c"),
        newest=(mixed.name("a"), early), flags=6, own=None, exact=False,
        before=None, renew=False, in_other_topic=False, incarnation=1,
    )  # fmt: skip

    class Slow:
        def choose(self, goals, read):
            closing.translate(3, 6)
            chosen = ChosenOffset(offset=0, re_read_bound=50, settled=True)
            return {each.group_partition: Resumption(chosen=chosen, mode="margin", end=50) for each in goals}

    def lock():
        return setting_offsets(mixed.database.engine, mixed.name("c"))

    offsets = GroupOffsets(client_config(mixed.servers("c"), {}))
    done = OffsetSetter(mixed.name("c"), offsets, Slow(), lock).set_due([work], lambda: None)
    offset, metadata = stands(mixed, "c", "tips")
    assert offset > 0 and commit_metadata.decode(metadata).generation == 3
    assert done[group_partition].state == State.WAITING and done[group_partition].offset is None


class Ended(GroupOffsets):
    """PostgreSQL ends the session that holds the lock during a read; a successor has the lock then."""

    def __init__(self, hand: ByHand) -> None:
        super().__init__(client_config(hand.servers("c"), {}))
        self._hand, self._asked = hand, 0

    def committed(self, wanted, *, stable=False):
        self._asked += 1
        if self._asked == 2:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            with self._hand.database.owner.connect() as connection:
                connection.exec_driver_sql(ended)
            with setting_offsets(self._hand.database.engine, self._hand.name("c")) as successor:
                successor.check()
        return super().committed(wanted, stable=stable)


@pytest.mark.nightly  # test_a_committer_that_was_choosing_meanwhile takes nothing back either
def test_a_committer_that_lost_the_lock_while_it_asked_sets_nothing(mixed: ByHand, closing: GroupClosing):
    mixed.commit("a", "tips", offset_behind(mixed, "a", 50))
    (carried,) = closing.translate(2, 6)
    before = stands(mixed, "c", "tips")
    later = Progress(timestamp_ms=1, committed_at_ms=LATEST_MS, generation=3, vector=None, offset=1)
    work = DueOffset(
        group_partition=carried.group_partition, group=mixed.group("tips"), topic=mixed.topic("c"),
        newest=(mixed.name("a"), later), flags=6, own=None, exact=False, before=None, renew=False,
        in_other_topic=False, incarnation=1,
    )  # fmt: skip

    class AtOnce:
        def choose(self, goals, read):
            chosen = ChosenOffset(offset=0, re_read_bound=50, settled=True)
            return {each.group_partition: Resumption(chosen=chosen, mode="margin", end=50) for each in goals}

    def lock():
        return setting_offsets(mixed.database.engine, mixed.name("c"))

    setter = OffsetSetter(mixed.name("c"), Ended(mixed), AtOnce(), lock)
    with pytest.raises(LockLost):
        setter.set_due([work], lambda: None)
    assert stands(mixed, "c", "tips") == before


def test_a_switch_sets_no_offsets_while_a_committer_does(mixed: ByHand, closing: GroupClosing):
    mixed.commit("a", "tips", offset_behind(mixed, "a", 50))
    with ThreadPoolExecutor(1) as thread:
        with setting_offsets(mixed.database.engine, mixed.name("c")):
            carried = thread.submit(closing.translate, 3, 6)
            time.sleep(1)  # time for a wrong result to appear
            assert stands(mixed, "c", "tips")[0] == -1001
        assert [one.refused for one in carried.result()] == [None]
    assert stands(mixed, "c", "tips")[0] > 0


def test_offsets_that_a_transaction_is_about_to_commit_are_waited_for(mixed: ByHand, closing: GroupClosing):
    """The application may have ended the transaction, but its marker has not reached the group's partition yet."""
    mixed.commit("a", "g", 2)
    producer = mixed.transaction("a", 0)
    consumer = mixed.consumer("a", "g")
    place = TopicPartition(mixed.topic("a"), 0, 5)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), DEADLINE_SECONDS)
    closing.warm_up()  # while applications run there is always an open transaction
    with pytest.raises(OffsetsPending, match=mixed.group("g")):
        closing.translate(2, 6)
    assert stands(mixed, "c", "g")[0] < 0, "nothing was set meanwhile"
    producer.commit_transaction(DEADLINE_SECONDS)
    consumer.close()

    def carried() -> list[TranslatedOffset] | None:
        try:
            return closing.translate(2, 6)
        except OffsetsPending:
            return None

    (one,) = eventually(carried, "its marker has come")
    assert (one.source_offset, one.refused) == (5, None)
