"""The shipped Prometheus and Grafana files use existing metrics, and each alert says what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from backend.metrics import METRICS
from tests.project.architecture.promql import Wrong, labels_of
from tests.project.architecture.sources import PROJECT_ROOT
from workers.zone_router.traffic import NodeCollector, Traffic

FOLDER = PROJECT_ROOT / "deploy" / "observability"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana" / "dashboards" / "treeline.json").read_text())
PANELS = {each["title"]: each for each in DASHBOARD["panels"] if each["type"] != "row"}
OPERATIONS = (PROJECT_ROOT / "docs" / "operations.md").read_text()
DURATION = re.compile(r"^\d+[smh]$")
each_rule = pytest.mark.parametrize("name", RULES)
each_panel = pytest.mark.parametrize("title", PANELS)


def exported() -> Mapping[str, frozenset[str]]:
    """Return name -> labels of the metrics of the API, the zone router's nodes, and Prometheus itself."""
    return {
        "up": frozenset(),
        **{name: frozenset(metric.labels) for name, metric in METRICS.items()},
        **dict(of_the_zone_router()),
    }


def of_the_zone_router() -> Iterator[tuple[str, frozenset[str]]]:
    registry = CollectorRegistry()
    Traffic("zr-az1", "az1", registry)
    registry.register(NodeCollector(dict, dict, dict))
    for collector in set(registry._names_to_collectors.values()):
        families = [collector] if hasattr(collector, "_labelnames") else list(collector.collect())
        for family in families:
            name = getattr(family, "_name", None) or family.name
            kind = getattr(family, "_type", None) or family.type
            yield name + ("_total" if kind == "counter" else ""), frozenset(family._labelnames)


EXPORTED = exported()


@each_rule
def test_a_rule_asks_for_what_is_exported_and_names_labels_that_it_has(name: str) -> None:
    rule = RULES[name]
    labels = labels_of(rule["expr"], EXPORTED)
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.([a-z_]+)", text)) <= labels, text


@each_rule
def test_a_rule_is_described_waits_and_leads_to_what_to_do(name: str) -> None:
    rule = RULES[name]
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert DURATION.match(rule["for"]) and rule["labels"]["severity"] in ("warning", "critical")
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert notes["description"].endswith(".") and not notes["summary"].endswith(".")
    page, _, anchor = notes["runbook_url"].partition("#")
    assert (page, anchor) == ("docs/operations.md", name.lower())


def test_what_to_do_is_written_for_each_alert_and_for_no_other() -> None:
    parts = dict(re.findall(r"^### (Treeline\w+)\n\n(.+?)(?=\n\n#|\Z)", OPERATIONS, re.MULTILINE | re.DOTALL))
    assert parts.keys() == RULES.keys()
    assert list(parts) == list(RULES), "in the order of the file"
    assert all(len(text) > 80 for text in parts.values())


@each_panel
def test_a_panel_asks_for_what_is_exported_and_names_labels_that_it_has(title: str) -> None:
    panel = PANELS[title]
    assert panel["description"] and panel["targets"]
    for target in panel["targets"]:
        labels = labels_of(target["expr"], EXPORTED)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, target
        variables = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
        assert variables <= {each["name"] for each in DASHBOARD["templating"]["list"]}


def test_the_dashboard_offers_labels_that_there_are_and_overlaps_nowhere() -> None:
    for each in DASHBOARD["templating"]["list"]:
        if each["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", each["definition"]).groups()  # type: ignore[union-attr]
            assert label in EXPORTED[metric]
    cells = [
        (x, y)
        for each in DASHBOARD["panels"]
        for at in [each["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    ids = [each["id"] for each in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_every_metric_is_looked_at_by_a_rule_or_a_panel() -> None:
    asked = " ".join([rule["expr"] for rule in RULES.values()])
    asked += " ".join(target["expr"] for panel in PANELS.values() for target in panel["targets"])
    # For times, the counts beside them suffice; the other metric explains how to read those by stream.
    assert {name for name in METRICS if name not in asked} == {
        "treeline_schema_held_seconds_total",
        "treeline_replication_by_stream",
    }


def test_provisioning_fits_together() -> None:
    [source] = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/treeline.yml").read_text())[
        "datasources"
    ]
    [chosen] = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "datasource"]
    assert chosen["current"]["value"] == source["uid"] and chosen["query"] == source["type"]
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert config["rule_files"] == ["/etc/prometheus/alerts.yml"]
    assert {job["job_name"] for job in config["scrape_configs"]} >= set(
        re.findall(r'job="([a-z-]+)"', " ".join(rule["expr"] for rule in RULES.values()))
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("treeline_nothing > 0", "no metric treeline_nothing"),
        ('treeline_cluster_online{zone="az1"} == 0', "no label zone"),
        ("sum by (zone) (treeline_cluster_online)", "no label zone"),
        ("treeline_cluster_online and on (source) treeline_distributor_running", "no label source"),
    ],
)
def test_what_is_wrong_would_be_found(wrong: str, why: str) -> None:
    with pytest.raises(Wrong, match=why):
        labels_of(wrong, EXPORTED)
    with pytest.raises(ValueError, match=r"."):
        labels_of("sum by (", EXPORTED)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus's own checker is not installed")
def test_prometheus_takes_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", FOLDER / "alerts.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
