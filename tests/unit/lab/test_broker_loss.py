"""Answers about the loss of a broker, from a cluster's report: sentence, outcomes, tone, assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from backend.cluster_requests.broker_loss import OUTCOMES, BrokerLoss, document, in_words, played
from backend.domain.replication.replication_health import (
    ObservedBroker,
    ObservedCluster,
    ObservedPartition,
    Place,
    TopicSettings,
)
from backend.replication_lab.runs.what_if import LISTS
from backend.web.replication.replication_what_if_page import TONES, tone_of

HERE = {each: ObservedBroker(None, is_here=True) for each in (1, 2, 3)}
USUAL = TopicSettings(min_insync_replicas=2, unclean_election=False)
SOUND = ObservedPartition((2, 1, 3), (1, 2, 3), 2)
LONE = ObservedPartition((1, 2, 3), (1,), 1)
LEADERLESS = ObservedPartition((3, 1), (3,), -1)
LAST = ObservedPartition((1, 2), (1,), -1)


def lost(
    *partitions: ObservedPartition,
    settings: Mapping[str, TopicSettings] | None = None,
    eligible: Mapping[Place, tuple[int, ...]] | None = {},
    sessions_ms: Mapping[int, int] = {1: 5_000, 2: 5_000},
) -> BrokerLoss:
    """Let broker 1 die; the first partition is `a-0`, the next `b-0`."""
    places = {(chr(ord("a") + at), 0): each for at, each in enumerate(partitions)}
    seen = ObservedCluster(cluster_id="k", brokers=HERE, partitions=places)
    known = {topic: USUAL for topic, _ in places} if settings is None else settings
    return played(seen, 1, places, known, eligible, sessions_ms)


def counts(loss: BrokerLoss) -> dict[str, int]:
    """Return the counts of the outcomes that occur."""
    outcomes: list[dict[str, Any]] = document(loss)["outcomes"]
    return {each["what"]: each["count"] for each in outcomes if each["count"]}


def test_every_list_of_the_lab_is_an_outcome_in_words() -> None:
    assert set(OUTCOMES) == set(LISTS) and set(TONES) <= set(OUTCOMES)


@pytest.mark.parametrize(
    ("partition", "tone", "said"),
    [
        (SOUND, "good", "no committed record would be lost."),
        (ObservedPartition((2, 1), (1, 2), 2), "warn", "producers with acks=all would be refused in 1."),
        (LONE, "bad", "1 partition could not be led until it is back"),
        (LEADERLESS, "warn", "1 partition (a-0) has no leader already."),
        (LAST, "bad", "what is committed in 1 would be lost if its disk was: nobody else has all of it."),
    ],
)
def test_the_tone_is_that_of_the_worst(partition: ObservedPartition, tone: str, said: str) -> None:
    loss = lost(partition)
    assert tone_of(loss) == tone and said in in_words(loss.found)


def test_partitions_that_nobody_leads_are_named_and_never_told_as_sound() -> None:
    sentence = in_words(lost(LEADERLESS, SOUND, LEADERLESS, LEADERLESS, LEADERLESS).found)
    assert "4 partitions (a-0, c-0, d-0, ...) have no leader already" in sentence
    assert "no committed record of a partition that is led would be lost" in sentence


def test_with_unclean_election_what_the_next_leader_lacks_is_lost_for_good() -> None:
    loss = lost(LONE, settings={"a": TopicSettings(1, unclean_election=True)})
    assert counts(loss) == {"unclean": 1, "moved": 1} and tone_of(loss) == "bad"
    assert "1 partition (a-0) would be led by a replica that is not in sync" in in_words(loss.found)
    assert "no committed record" not in in_words(loss.found)


def test_an_eligible_replica_leads_where_the_cluster_tells_it() -> None:
    assert counts(lost(LONE, eligible={("a", 0): (2,)})) == {"moved": 1, "uncopied": 1, "refusing": 1}
    assert document(lost(LONE))["assumed"] == []
    untold = lost(LONE, eligible=None)
    assert counts(untold) == {"offline": 1}
    (sentence,) = document(untold)["assumed"]
    assert "does not tell eligible leader replicas" in sentence


def test_topics_whose_settings_may_not_be_seen_are_counted_and_what_is_assumed_is_said() -> None:
    loss = lost(SOUND, SOUND, settings={"a": USUAL})
    assert document(loss)["settings_unseen"] == 1 and tone_of(loss) == "warn"
    (sentence,) = document(loss)["assumed"]
    assert "settings of 1 topic could not be seen (b)" in sentence
    assert "min.insync.replicas 1 and no unclean election" in sentence
    assert "(a, b, c, ...)" in document(lost(*[SOUND] * 5, settings={}))["assumed"][0]


def test_the_session_is_that_of_the_brokers_or_kafkas_own_and_said_so() -> None:
    leads = ObservedPartition((1, 2, 3), (1, 2, 3), 1)
    live = document(lost(leads))
    assert live["session_ms"] == 5_000 and 4_750 < live["longest_away_ms"] < 5_750 and live["assumed"] == []
    silent = document(lost(leads, sessions_ms={}))
    assert silent["session_ms"] == 9_000 and 8_550 < silent["longest_away_ms"] < 9_950
    assert "Kafka's default of 9,000 ms is assumed" in silent["assumed"][0]
    # While it is being changed the longer value is used.
    assert document(lost(leads, sessions_ms={1: 5_000, 2: 18_000}))["session_ms"] == 18_000


def test_a_partition_of_very_many_replicas_is_told_as_any_other() -> None:
    everybody = tuple(range(1, 31))
    assert counts(lost(ObservedPartition(everybody, everybody, 1))) == {"moved": 1, "uncopied": 1}
