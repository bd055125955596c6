"""Topics against their declarations, and what acks=all promises about them."""

from __future__ import annotations

import re

import pytest

from backend.domain.replication.replication_alerts import Severity, alerts
from backend.domain.replication.replication_health import (
    Named,
    ObservedBroker,
    ObservedCluster,
    ObservedPartition,
    TopicSettings,
    health,
)
from backend.domain.replication.topic_replication import (
    FactorMismatch,
    TopicReplication,
    acks_advice,
    factor_mismatches,
    seen_topics,
    unclean_advice,
)
from backend.settings import PROJECT_ROOT

BROKERS = {broker: ObservedBroker(None, is_here=True) for broker in (1, 2, 3)}
NONE = Named(0, ())


def whole(*replicas: int) -> ObservedPartition:
    return ObservedPartition(replicas, replicas, replicas[0])


def seen(*partitions: ObservedPartition) -> ObservedCluster:
    places = {("t", number): each for number, each in enumerate(partitions)}
    return ObservedCluster(cluster_id="k", brokers=BROKERS, partitions={**places, ("other", 0): whole(1)})


ADDING = ObservedPartition((1, 2), (1,), 1, adding=(2,))


@pytest.mark.parametrize(
    ("partitions", "declared", "brokers", "fewer", "more"),
    [
        ([whole(1)], 3, 3, 1, 0),
        ([whole(1), whole(1, 2, 3)], 3, 3, 1, 0),
        ([whole(1, 2, 3), whole(2, 3, 1)], 3, 3, 0, 0),
        # No more than there are brokers, as topics are created.
        ([whole(1, 2)], 3, 2, 0, 0),
        ([whole(1)], 3, 1, 0, 0),
        # Where a broker is offline the other topics are still as declared.
        ([ObservedPartition((1, 2, 3), (1, 2), 1)], 3, 2, 0, 0),
        ([whole(1, 2)], 1, 3, 0, 1),
        ([whole(1), whole(1, 2)], 1, 3, 0, 1),
        # A topic being reassigned is about to have the requested replicas.
        ([ADDING, whole(1)], 2, 3, 0, 0),
        ([ObservedPartition((1, 2), (1, 2), 1, removing=(2,))], 1, 3, 0, 0),
    ],
)
def test_topics_are_compared_with_what_is_declared(
    partitions: list[ObservedPartition], declared: int, brokers: int, fewer: int, more: int
) -> None:
    topics = seen_topics(seen(*partitions), {}, {"t"})
    unlike = factor_mismatches({"t": declared, "gone": 3}, topics, brokers)
    assert unlike == FactorMismatch(fewer=Named(fewer, ("t",) * fewer), more=Named(more, ("t",) * more))


def test_only_what_is_asked_for_is_told_with_its_settings() -> None:
    found = seen_topics(seen(whole(1, 2), ADDING), {"t": TopicSettings(2, unclean_election=True)}, {"t", "gone"})
    expected = TopicReplication(fewest=1, most=2, moving=True, min_insync_replicas=2, unclean_election=True)
    assert found == {"t": expected}
    unknown = seen_topics(seen(whole(1)), {}, {"t"})["t"]
    assert (unknown.min_insync_replicas, unknown.unclean_election) == (None, None)


def test_alerts_say_which_command_brings_topics_to_what_is_declared() -> None:
    look = health(seen(), {}, {})
    unlike = FactorMismatch(fewer=Named(2, ("a", "b")), more=Named(1, ("c",)))
    found = [each for each in alerts(look, unlike, "east") if each.alert == "factor-not-as-declared"]
    assert [(each.severity, each.count, each.examples) for each in found] == [
        (Severity.WARNING, 2, ("a", "b")),
        (Severity.ADVICE, 1, ("c",)),
    ]
    command = "treeline placement plan --cluster east --replication-factor declared"
    assert all(command in each.what_to_do for each in found)
    assert alerts(look, FactorMismatch(fewer=NONE, more=NONE), "east") == []


def test_the_page_has_the_words_of_the_advice() -> None:
    page = (PROJECT_ROOT / "docs" / "replication.md").read_text()
    rows = re.findall(r"^\| (\d) \| (\d) \| (acks=all: [^(|]+?)(?: \([^|]*\))? \|$", page, re.MULTILINE)
    assert [(int(row[0]), int(row[1])) for row in rows] == [(3, 2), (3, 1), (3, 3), (2, 1), (2, 2), (1, 1)]
    assert [row[2] for row in rows] == [acks_advice(int(row[0]), int(row[1])) for row in rows]


def test_a_minimum_above_the_replicas_is_these_and_many_are_figures() -> None:
    assert acks_advice(2, 3) == acks_advice(2, 2)
    assert acks_advice(1, 2) == acks_advice(1, 1)
    assert "is on 11 brokers" in acks_advice(12, 11)


def test_unclean_election_is_stated() -> None:
    assert unclean_advice(unclean_election=False) == "unclean leader election is off"
    assert "are lost" in unclean_advice(unclean_election=True)
