"""Heap of brokers: by the estate file, the machine's memory and the declared partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.estate.document import Estate, EstateInvalid, read_estate
from backend.estate.programs.broker import Broker, BrokerPorts
from backend.estate.programs.heap import heap_of, heap_warnings, machine_memory_mb
from backend.settings import PROJECT_ROOT

PAIR = """\
name: pair
primary: cluster-1
clusters:
  cluster-1: {%s}
  cluster-2: {zones: [az1, az2, az3], brokers: 3}
tree: {level: 2, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
tenants:
  acme: {instances: {retail: {environments: {prod: {streams: {%s}}}}}}
"""
STREAM = "%s: {partitions: %d, replication_factor: 3}"


def estate(tmp_path: Path, partitions: int, cluster: str = "brokers: 1") -> Estate:
    file = tmp_path / "estate.yaml"
    sizes = [10_000] * (partitions // 10_000) or [partitions]
    streams = ", ".join(STREAM % (f"s{number}", size) for number, size in enumerate(sizes))
    file.write_text(PAIR % (cluster, streams))
    return read_estate(file)


@pytest.mark.parametrize(
    ("machine_mb", "partitions", "first", "second"),
    [
        (32_768, 4, 1024, 1024),  # room for partitions that are created while it runs
        (32_768, 40_000, 2067, 2067),  # three brokers with three replicas of each hold as many as one
        (4_096, 4, 512, 512),  # half of the machine's memory, for four brokers
        (1_024, 4, 256, 256),  # never less than an idle broker needs
    ],
)
def test_heap_is_of_the_machine_and_of_what_is_declared(
    tmp_path: Path, machine_mb: int, partitions: int, first: int, second: int
) -> None:
    read = estate(tmp_path, partitions)
    assert [heap_of(cluster, read, machine_mb).megabytes for cluster in read.clusters] == [first, second]


def test_the_estate_file_has_the_last_word(tmp_path: Path) -> None:
    read = estate(tmp_path, 4, "heap_mb: 3000")
    assert heap_of(read.clusters[0], read, 2_048).megabytes == 3000
    assert heap_of(read.clusters[1], read, 32_768).megabytes == 1024


@pytest.mark.parametrize("wrong", ["heap_mb: 64", "heap_mb: 40000", "heap_mb: 512m", "heap_mb: 1.5"])
def test_a_heap_that_cannot_be_is_refused_by_its_place(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(EstateInvalid, match=r"clusters\.cluster-1\.heap_mb: .+, not "):
        estate(tmp_path, 4, wrong)


def test_up_warns_of_brokers_that_may_run_out(tmp_path: Path) -> None:
    assert heap_warnings(estate(tmp_path, 4), 4_096) == []
    assert heap_warnings(estate(tmp_path, 40_000, "heap_mb: 300"), 32_768) == [
        "cluster-1: a broker has 300 MB of heap, and its 40,000 declared replicas are expected to need 2067 MB: "
        "raise its heap_mb"
    ]
    assert heap_warnings(estate(tmp_path, 4, "heap_mb: 3000"), 2_048) == [
        "the brokers may take 3768 MB of heap together; this machine has 2048 MB"
    ]


def test_this_machine_has_memory() -> None:
    assert machine_memory_mb() > 256


def test_a_broker_is_started_with_its_heap_and_ends_without_memory(tmp_path: Path) -> None:
    spec = read_estate(PROJECT_ROOT / "estates" / "unbalanced.yaml").clusters[0]
    ports = (BrokerPorts(client=1, advertised=1, internal=2, controller=3),)
    broker = Broker(cluster=spec, node=1, ports=ports, folder=tmp_path, password="", heap_mb=777)
    process = broker.process(jars=tmp_path, archive=None, log=tmp_path / "log", after=[])
    server = process.argv[-1].partition("exec ")[2]
    assert "-Xmx777m" in server and "-XX:+ExitOnOutOfMemoryError" in server
    assert process.if_out_of_memory == "heap 777 MB; raise `heap_mb` of cluster-1 in the estate file"
