"""A cluster has all records that another one held at one moment, or the missing ones are counted."""

from __future__ import annotations

import secrets

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.tenants.stream_records import RecordApplied
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.cluster_clients import ClusterClients
from backend.queries.clusters.clusters import ClusterRow
from tests.eventually import eventually
from tests.kafka.switch.by_hand import ByHand, until
from tests.nightly import some_now
from tests.support.api.streams import worker_records
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView
from workers.switches.residual_writes import produced_by_now, produced_since, produced_until


def missing(found):
    """Return (partition, target's letter) -> missing records, where there are some."""
    return {(one.partition, one.target[0]): one.missing_records for one in found.partitions if not one.is_covered}


def test_it_is_drained_only_when_the_target_has_the_records_of_that_moment(hand: ByHand):
    hand.produce("a", 30)
    hand.produce("a", 20, 1)
    drain = hand.drain("a", "b")
    drain.warm_up()
    hand.produce("a", 5)
    drain.mark()
    assert missing(drain.observe()) == {(0, "b"): 35, (1, "b"): 20}
    hand.produce("a", 7)
    assert missing(drain.observe()) == {(0, "b"): 35, (1, "b"): 20}, "what came later is no part of it"
    hand.copy(("a", 2))
    found = until(drain)
    assert (found.is_drained, found.covered, found.total, found.missing_records) == (True, 2, 2, 0)
    hand.produce("a", 3, 1)
    assert drain.observe().is_drained
    drain.mark()
    assert missing(drain.observe()) == {(1, "b"): 3}


@pytest.mark.nightly  # both hops in test_what_would_be_lost and in test_draining
def test_over_another_leaf_it_takes_both_hops(hand: ByHand):
    hand.produce("a", 10)
    drain = hand.drain("a", "b", "c")
    drain.mark()
    assert missing(drain.observe()) == {(0, "b"): 10, (0, "c"): 10}
    hand.copy(("a", 2))
    eventually(lambda: missing(drain.observe()) == {(0, "c"): 10}, "the first hop is done")
    hand.copy(("b", 1))
    until(drain)


@pytest.mark.nightly  # a mutant of it is caught by test_draining
def test_copies_that_the_source_holds_belong_to_it(hand: ByHand):
    """Records produced on c and held by a: the other leaf needs them too, though none of them is copied from a."""
    hand.produce("c", 10)
    hand.copy(("c", 2))
    assert len(hand.values("a")) == 10
    drain = hand.drain("a", "b", "c")
    drain.mark()
    told = "what was born on the target is there"
    eventually(lambda: missing(drain.observe()) == {(0, "b"): 10}, told)
    hand.copy(("c", 1))
    until(drain)


@pytest.mark.nightly  # test_draining
def test_a_tail_of_copies_that_no_task_has_committed_as_skipped(hand: ByHand):
    hand.produce("a", 10)
    hand.copy(("a", 2), ("b", 1))
    hand.produce("b", 40)
    hand.copy(("b", 2), ("b", 1))
    drain = hand.drain("a", "b", "c")
    drain.warm_up()
    drain.mark()
    # The tasks of a have not read those records, and the drain need not wait for that.
    until(drain)
    assert drain.undrained() == []


def lost(drain):
    """Return (partition, first offset, end, records) that exist nowhere else, from another drain object."""
    assert not drain.observe().is_drained
    return {(one.partition, one.first, one.end, one.records) for one in drain.undrained()}


def marked(drain):
    """Return whether the log ends of all partitions were read."""
    try:
        drain.mark()
    except KafkaCallFailed:
        return False
    return True


@pytest.mark.parametrize("commits", [True, False])
def test_records_of_a_transaction_that_was_open_at_the_moment_belong_to_it(hand: ByHand, commits: bool):
    open_transaction = hand.transaction("a", 5)
    drain = hand.drain("a", "b")
    drain.mark()
    hand.produce("a", 3)
    one, _ = drain.observe().partitions
    assert not one.is_covered and one.waits_for is not None and "transactions" in one.waits_for
    if commits:
        open_transaction.commit_transaction(DEADLINE_SECONDS)
        eventually(lambda: missing(drain.observe()) == {(0, "b"): 5}, "its records are missing")
        hand.copy(("a", 2))
    else:
        open_transaction.abort_transaction(DEADLINE_SECONDS)
    until(drain)


def test_empty_logs_and_logs_with_aborted_records_only_hold_nothing(hand: ByHand):
    drain = hand.drain("a", "b", "c")
    drain.mark()
    assert drain.observe().is_drained
    hand.transaction("a", 5).abort_transaction(DEADLINE_SECONDS)
    drain.mark()
    until(drain)


@pytest.mark.nightly  # counts by partition stay in test_what_was_born_since
def test_a_partition_that_was_added_since_the_clients_were_opened(hand: ByHand):
    hand.produce("a", 5)
    hand.copy(("a", 2))
    drain = hand.drain("a", "b")
    drain.warm_up()
    hand.add_partition()
    hand.produce("a", 4, 2)
    eventually(lambda: marked(drain), "the new partition's leader answers")
    found = drain.observe()
    assert (found.total, missing(found)) == (3, {(2, "b"): 4})
    hand.copy(("a", 2))
    until(drain)


@pytest.mark.nightly  # test_taking_up, test_source_replaced
def test_a_target_whose_topic_was_made_anew_has_nothing(hand: ByHand):
    hand.produce("a", 6)
    hand.copy(("a", 2))
    hand.make_anew("b")
    drain = hand.drain("a", "b")
    drain.mark()
    assert missing(drain.observe()) == {(0, "b"): 6}
    hand.copy(("a", 2))
    until(drain)


def test_what_retention_took_from_the_source_is_not_waited_for(hand: ByHand):
    """The target joined after they were deleted: no task can copy what the source's vector still names."""
    hand.produce("c", 8)
    hand.copy(("c", 2))
    hand.produce("a", 4)
    hand.copy(("a", 2))
    for letter in ("a", "c"):
        admin = AdminClient({"bootstrap.servers": hand.servers(letter)})
        (gone,) = admin.delete_records([TopicPartition(hand.topic(letter), 0, 8)]).values()
        gone.result(DEADLINE_SECONDS)
    hand.make_anew("b")
    drain = hand.drain("a", "b")
    drain.mark()
    assert not drain.observe().is_drained
    hand.copy(("a", 2))
    until(drain)
    drain.mark()
    assert drain.observe().is_drained, "it is looked for once"


def test_what_would_be_lost_if_the_source_died_now(hand: ByHand):
    drain = hand.drain("a", "b", "c")
    drain.mark()
    drain.observe()
    assert drain.undrained() == []
    hand.produce("a", 6)
    hand.copy(("a", 2))
    hand.produce("a", 4)
    hand.produce("a", 3, 1)
    drain.mark()
    eventually(lambda: lost(drain) == {(0, 6, 10, 4), (1, 0, 3, 3)}, "what was copied is covered")


def test_a_source_that_is_gone_leaves_what_others_know(hand: ByHand):
    hand.produce("a", 6)
    hand.copy(("a", 2))
    answer = hand.rest(
        "PATCH", f"/clusters/{hand.name('a')}", {"bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
    )
    assert answer.is_success, answer.text
    drain = hand.drain("a", "b", "c")
    drain.warm_up()
    eventually(lambda: lost(drain) == {(0, 6, None, None), (1, 0, None, None)}, "what was copied is covered")


def test_streams_that_are_not_distributed_are_no_part_of_it(hand: ByHand):
    drain = hand.drain("a", "b", streams=[hand.stream, f"acme/retail/prod/n{secrets.token_hex(4)}"])
    drain.mark()
    assert drain.observe().total == 2


@pytest.mark.nightly  # test_closing has the margin without origins
def test_without_origins_positions_are_followed_from_hop_to_hop(hand: ByHand):
    hand.settings = hand.settings.model_copy(update={"origin_header": False})
    drain = hand.drain("a", "b", "c")
    drain.warm_up()
    hand.produce("a", 10)
    hand.transaction("a", 2).commit_transaction(DEADLINE_SECONDS)
    drain.mark()
    assert not drain.observe().is_drained
    hand.copy(("a", 2))
    eventually(lambda: {target for _, target in missing(drain.observe())} == {"c"}, "the first hop is done")
    hand.copy(("b", 1))
    until(drain)


def test_what_was_born_since_is_counted_by_partition(hand: ByHand):
    """An emptied partition counts from its end.

    Its offsets neither count as records nor hide those of others, and later copies do not count.
    """
    hand.add_stream(3)
    hand.produce("a", 30)
    hand.produce("a", 5, partition=1)
    drain = hand.drain("a")
    empty(hand, 0)
    before = produced_until(told_now(drain))
    assert before == {hand.stream: [30, 5, 0]} and produced_since(before, produced_by_now(drain)) == 0
    hand.produce("b", 7, partition=2)
    hand.copy(("b", 2))
    assert produced_since(before, produced_by_now(told_now(drain))) == 0, "these were born elsewhere"
    hand.produce("a", 3)
    hand.produce("a", 2, partition=1)
    empty(hand, 1)
    assert produced_since(before, produced_by_now(told_now(drain))) == 3 + 2
    assert produced_since({}, {hand.stream: [4, 1]}) == 5, "a stream that came since"


def told_now(drain: Drain) -> Drain:
    """Return the drain after it has learned all that can be known now."""
    drain.mark()
    eventually(lambda: (drain.observe(), drain.is_told)[1], "it is told")
    return drain


def empty(hand: ByHand, partition: int) -> None:
    admin = AdminClient({"bootstrap.servers": hand.servers("a")})
    (gone,) = admin.delete_records([TopicPartition(hand.topic("a"), partition, -1)]).values()
    gone.result(DEADLINE_SECONDS)


class Restless(EstateView):
    """Records, while ends are read, that the topic on `a` was replaced, so many times."""

    def __init__(self, hand: ByHand, times: int) -> None:
        super().__init__(hand.database.engine, hand.settings)
        self.hand, self.times = hand, times

    def clients(self, row: ClusterRow) -> ClusterClients:
        if self.times > 0:
            self.times -= 1
            place = {"instance": "retail", "environment": "prod", "stream": self.hand.streams[-1]}
            topic_id = secrets.token_hex(8)
            worker_records(
                self.hand.rest,
                RecordApplied(**place, cluster=self.hand.name("a"), topic_id=topic_id, replication_factor=1),
            )
        return super().clients(row)


@some_now("times, comes_to_rest", [(3, True), (50, False)], now=(0,))
def test_a_mark_asks_again_while_topics_are_made_anew_but_not_for_ever(hand: ByHand, times, comes_to_rest):
    hand.produce("a", 5)
    view = Restless(hand, times)
    hand.views.append(view)
    drain = Drain(view, hand.name("a"), [hand.name("b")], [hand.stream])
    if not comes_to_rest:
        with pytest.raises(KafkaCallFailed, match="keep changing"):
            drain.mark()
        assert view.times > 0
        view.times = 0
    drain.mark()
    ends = {partition: end for (_, partition), (_, end) in drain.ends().items()}
    assert (view.times, ends) == (0, {0: 5, 1: 0})
