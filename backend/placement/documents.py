"""The JSON rows of a plan, as Kafka's reassignment tool reads them, and the digest that identifies a plan."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any

import numpy as np

from backend.placement.problem import Brokers, Ints, Problem, Replicas, starts_of


def rows_of(problem: Problem, replicas: Replicas, some: Ints | None = None) -> list[dict[str, Any]]:
    """Return partitions with their brokers' ids, as plans and reassignments list them."""
    ids, starts = problem.broker_ids[replicas.brokers].tolist(), replicas.starts.tolist()
    topics, numbers = problem.topic_of.tolist(), problem.numbers.tolist()
    chosen = range(len(replicas)) if some is None else some.tolist()
    return [
        {"topic": problem.topics[topics[p]], "partition": numbers[p], "replicas": ids[starts[p] : starts[p + 1]]}
        for p in chosen
    ]


def reassignment(problem: Problem, replicas: Replicas) -> dict[str, Any]:
    """Return the input of `kafka-reassign-partitions.sh --reassignment-json-file`.

    It lists all partitions whose brokers, or their order, change.
    """
    return {"version": 1, "partitions": rows_of(problem, replicas, changed(problem, replicas))}


def changed(problem: Problem, replicas: Replicas) -> Ints:
    """Return the partitions whose list of brokers changes, in members or in order."""
    differ = problem.now.counts != replicas.counts
    same = np.flatnonzero(~differ)
    before, after = problem.now.some(same), replicas.some(same)
    differ[same[after.owners[before.brokers != after.brokers]]] = True
    return np.flatnonzero(differ)


def digest_of(problem: Problem, replicas: Replicas) -> str:
    """Return the digest of a problem and its plan together, so that quoting it proves that both were seen."""
    return digest_of_topics(problem, dict(zip(problem.topics, topic_digests(problem, replicas), strict=True)))


def digest_of_topics(brokers: Brokers, digests: dict[str, bytes]) -> str:
    """Combine brokers and the digests of all topics to the digest of a plan."""
    digest = hashlib.sha256(json.dumps([brokers.racks, sorted(digests)]).encode())
    for array in (brokers.broker_ids, brokers.rack_of, brokers.may_hold, brokers.may_lead):
        digest.update(_bytes(array))
    for topic in sorted(digests):
        digest.update(digests[topic])
    return digest.hexdigest()[:32]


def topic_digests(problem: Problem, replicas: Replicas) -> list[bytes]:
    """Return a digest for each topic of its problem and its plan; partitions must be in order of their topics."""
    ends = starts_of(np.bincount(problem.topic_of, minlength=len(problem.topics))).tolist()
    found = []
    for first, end in pairwise(ends):
        digest = hashlib.sha256()
        for each in (problem.now, replicas):
            digest.update(_bytes(each.counts[first:end]))
            digest.update(_bytes(problem.broker_ids[each.brokers[each.starts[first] : each.starts[end]]]))
        for array in (problem.numbers, problem.wanted, problem.is_fixed):
            digest.update(_bytes(array[first:end]))
        found.append(digest.digest())
    return found


def _bytes(array: Any) -> bytes:
    return np.ascontiguousarray(array).astype("<i8").tobytes()
