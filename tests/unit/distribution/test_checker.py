"""The checker finds every kind of anomaly, each planted by a distributor that does one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.tree import routes, tree_shape
from backend.verification import marks
from backend.verification.checker import Arrival, Checker
from backend.verification.marks import Mark
from tests.support.domain.trees import BALANCED, parsed

RECORDS = 40
PARTITIONS = 4
ROOT = parsed(BALANCED)
FLAGS = {
    origin: routes.arrival_flags(ROOT, tree_shape.default_targets(ROOT), origin)
    for origin in tree_shape.leaves(ROOT)
}


def faultless(origin, sequence, cluster):
    """Return the records that a faultless distributor leaves on a cluster."""
    return [Arrival(origin, sequence, sequence % PARTITIONS, sequence, sequence, FLAGS[origin][cluster])]


def only_once(change):
    """A mutant: `change` for record 17 of cluster 2 on cluster 4, faultless for all others."""

    def mutant(origin, sequence, cluster):
        arrivals = faultless(origin, sequence, cluster)
        return change(arrivals[0]) if (origin, sequence, cluster) == ("2", 17, "4") else arrivals

    return mutant


def altered(arrival, **changes):
    return [replace(arrival, **changes)]


MUTANTS = {
    "drops one": (only_once(lambda arrival: []), "missing"),
    "doubles one": (only_once(lambda arrival: [arrival, arrival]), "duplicates"),
    "omits the flag": (only_once(lambda arrival: altered(arrival, flags=0)), "wrong_flags"),
    "changes what is in it": (only_once(lambda arrival: altered(arrival, altered="another key")), "altered"),
    "makes one up": (only_once(lambda arrival: [arrival, *altered(arrival, sequence=RECORDS)]), "invented"),
    "from a cluster outside the tree": (
        only_once(lambda arrival: [arrival, *altered(arrival, origin="9")]),
        "invented",
    ),
}


def checked(distributor, order=lambda sequences: sequences):
    checker = Checker(FLAGS)
    for origin in FLAGS:
        for sequence in range(RECORDS):
            checker.produced(origin, sequence)
    for cluster in FLAGS:
        for origin in FLAGS:
            for sequence in order(range(RECORDS)):
                for arrival in distributor(origin, sequence, cluster):
                    checker.arrived(cluster, arrival)
    return checker


def test_a_faultless_run_is_faultless():
    checker = checked(faultless)
    reports = checker.reports()
    assert all(report.ok and checker.complete(cluster) for cluster, report in reports.items())
    assert not checker.anomalies
    assert reports["1"].expected == reports["1"].distinct == 4 * RECORDS
    assert dict(checked(faultless).reports()["4"].flags) == {
        "0000": RECORDS, "0001": RECORDS, "0100": RECORDS, "0101": RECORDS
    }  # fmt: skip


@pytest.mark.parametrize(("mutant", "kind"), MUTANTS.values(), ids=MUTANTS)
def test_a_distributor_that_does_one_thing_wrong_once_is_caught(mutant, kind):
    checker = checked(mutant)
    reports = checker.reports()
    assert getattr(reports["4"], kind) == 1
    assert not reports["4"].ok
    assert [line for line in checker.anomalies if line.startswith("4: record ")]
    assert all(reports[cluster].ok for cluster in ("1", "2", "3"))


def test_order_within_a_partition_is_checked():
    def swapped(sequences):
        return [{4: 8, 8: 4}.get(sequence, sequence) for sequence in sequences]

    report = checked(faultless, swapped).reports()["1"]
    assert report.out_of_order == 4
    assert report.duplicates == report.missing == 0


def test_order_between_partitions_is_nobodys_promise():
    def by_partition(sequences):
        return sorted(sequences, key=lambda sequence: (sequence % PARTITIONS, sequence))

    assert checked(faultless, by_partition).reports()["1"].ok


@pytest.mark.parametrize("arrives", [True, False])
def test_a_send_of_unknown_outcome_may_be_there_or_not(arrives):
    checker = Checker(FLAGS)
    checker.unknown("1", 0)
    if arrives:
        for cluster in FLAGS:
            checker.arrived(cluster, *faultless("1", 0, cluster))
    assert all(report.ok for report in checker.reports().values())


def test_a_record_of_an_aborted_transaction_must_be_nowhere():
    checker = Checker(FLAGS)
    checker.refused("1", 0, "its transaction was aborted")
    assert all(report.ok for report in checker.reports().values())
    checker.arrived("4", *faultless("1", 0, "4"))
    assert checker.reports()["4"].invented == 1
    assert checker.anomalies == [
        "4: record 0 of 1 at partition 0 offset 0 is visible although its transaction was aborted"
    ]


@pytest.mark.parametrize(
    "value", [None, b"", b"treeline-verify:1:", b"treeline-verify:1:a:b:c", b"\xff\xfe", b"x:1:a:2"]
)
def test_records_of_others_carry_no_mark(value):
    assert marks.decode(value) is None


def test_a_mark_survives_its_record():
    mark = Mark("0af3", "cluster-1", 999_999)
    assert marks.decode(marks.encode(mark)) == mark
