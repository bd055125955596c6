"""Estate files: shipped files are valid, and errors are reported with their place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from backend.estate.document import EstateInvalid, read_estate
from backend.settings import PROJECT_ROOT

SHIPPED = sorted((PROJECT_ROOT / "estates").glob("*.yaml"))

VALID = """\
name: pair
primary: cluster-1
clusters:
  cluster-1: {brokers: 1, zone: az1}
  cluster-2: {brokers: 3, zones: [az1, az2, az3]}
tree: {level: 2, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
tenants:
  acme: {instances: {retail: {environments: {prod: {streams: {orders: {partitions: 4}}}}}}}
"""


def places(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "estate.yaml"
    file.write_text(text)
    with pytest.raises(EstateInvalid) as refused:
        read_estate(file)
    assert all(str(file) in line for line in str(refused.value).splitlines())
    return [place for place, _ in refused.value.places]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_estate_is_valid_and_named_like_its_file(file: Path) -> None:
    assert read_estate(file).name == file.stem


def test_there_are_the_four_estates_of_the_contract_and_one_with_a_zone_router() -> None:
    assert [file.stem for file in SHIPPED] == ["balanced", "replicated", "secured", "unbalanced", "zones"]
    assert [file.stem for file in SHIPPED if read_estate(file).zones] == ["zones"]


def test_the_default_estate_has_five_clusters_with_two_formats() -> None:
    estate = read_estate(PROJECT_ROOT / "estates" / "unbalanced.yaml")
    assert [cluster.name for cluster in estate.clusters] == [f"cluster-{n}" for n in range(1, 6)]
    assert len({cluster.topic_format for cluster in estate.clusters}) == 2


def test_an_environment_may_have_applications(tmp_path: Path) -> None:
    file = tmp_path / "estate.yaml"
    asked = "applications: {billing: {produces: [orders], request_percentage: 50}}"
    file.write_text(VALID.replace("{streams:", f"{{{asked}, streams:"))
    billing = read_estate(file).tenants["acme"].instances["retail"].environments["prod"].applications["billing"]
    assert billing.model_dump(exclude_unset=True) == {"produces": ["orders"], "request_percentage": 50}


def test_one_zone_stands_for_all_brokers_and_zones_are_one_per_broker(tmp_path: Path) -> None:
    file = tmp_path / "estate.yaml"
    file.write_text(VALID)
    first, second = read_estate(file).clusters
    assert (first.zone, first.zones) == ("az1", ("az1",))
    assert (second.zone, second.zones) == ("az1", ("az1", "az2", "az3"))


ORDERS = "tenants.acme.instances.retail.environments.prod.streams.orders"

WRONG = [
    # replaced text, replacement, place of the error
    ("name: pair", "name: Not A Name", "name"),
    ("name: pair\n", "", "name"),
    ("primary: cluster-1", "primary: cluster-9", "primary"),
    ("primary: cluster-1\nclusters:", "primary: cluster-9\nclusters:\n  cluster-9: {brokers: 1}", "primary"),
    ("brokers: 1", "brokers: 0", "clusters.cluster-1.brokers"),
    ("brokers: 1", "brokers: one", "clusters.cluster-1.brokers"),
    ("brokers: 1", "brokers: true", "clusters.cluster-1.brokers"),
    ("brokers: 3", "brokers: 2", "clusters.cluster-2.zones"),
    ("zone: az1", "rack: az1", "clusters.cluster-1.rack"),
    ("zone: az1", "topic_format: '{tenant}'", "clusters.cluster-1.topic_format"),
    ("zone: az1", "topic_format: '{tenant}-{topic}-{city}'", "clusters.cluster-1.topic_format"),
    ("zone: az1", "topic_format: '{tenant}/{topic}'", "clusters.cluster-1.topic_format"),
    ("zone: az1", "group_format: '{topic}'", "clusters.cluster-1.group_format"),
    ("zone: az1", "security: {sasl: PLAIN}", "clusters.cluster-1.security.sasl"),
    ("zone: az1", "security: {acl: true}", "clusters.cluster-1.security.acl"),
    ("  cluster-1: {", "  Cluster 1: {", "clusters.Cluster 1"),
    (
        "partitions: 4",
        "partitions: 0",
        f"{ORDERS}.partitions",
    ),
    ("orders:", "'a b':", "tenants.acme.instances.retail.environments.prod.streams.a b"),
    ("partitions: 4", "replication_factor: 1, min_insync_replicas: 2", f"{ORDERS}.min_insync_replicas"),
    ("retail:", "Retail:", "tenants.acme.instances.Retail"),
    ("streams:", "topics:", "tenants.acme.instances.retail.environments.prod.topics"),
    ("level: 2", "level: 32", "tree.level"),
    ("level: 2", "level: 0", "tree.level"),
    ("{cluster: cluster-2}]", "{cluster: cluster-3}]", "tree.children[1].cluster"),
    ("{cluster: cluster-2}]", "{cluster: cluster-1}]", "tree.children[1].cluster"),
    (", {cluster: cluster-2}]", "]", "tree.children"),
    ("{cluster: cluster-2}]", "{level: 2, children: []}]", "tree.children[1].level"),
]


@pytest.mark.parametrize(("right", "wrong", "place"), WRONG, ids=[f"{w[1][:40]}" for w in WRONG])
def test_error_names_the_place(tmp_path: Path, right: str, wrong: str, place: str) -> None:
    assert right in VALID
    assert place in places(tmp_path, VALID.replace(right, wrong, 1))


def test_streams_that_would_meet_in_one_topic_are_named_with_the_cluster(tmp_path: Path) -> None:
    text = VALID.replace("zone: az1", "topic_format: 'all-{topic}'").replace(
        "prod: {streams", "dev: {streams: {orders: {}}}, prod: {streams"
    )
    assert places(tmp_path, text) == ["clusters.cluster-1.topic_format"]


def test_every_wrong_place_is_named_at_once(tmp_path: Path) -> None:
    text = VALID.replace("brokers: 1", "brokers: 0").replace("partitions: 4", "partitions: x")
    assert len(places(tmp_path, text)) == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: [", "line 2"),
        ("name: a\nname: b\n", "line 2"),
        (dedent("clusters:\n  cluster-1: {}\n  cluster-1: {}\n"), "line 3"),
        ("1: a\n", "line 1"),
        ("- a\n", ""),
        ("", ""),
        ("!!python/object/apply:os.system ['true']\n", "line 1"),
    ],
)
def test_what_is_no_estate_file_at_all_is_refused_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    assert places(tmp_path, text)[0].startswith(place)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EstateInvalid, match="cannot be read"):
        read_estate(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EstateInvalid, match="UTF-8"):
        read_estate(tmp_path / "binary.yaml")
