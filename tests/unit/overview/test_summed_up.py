"""Many problems of one code, which are summed up in one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backend.domain.overview.estate_health import estate_health
from backend.domain.overview.problems import gist
from tests.unit.overview.test_estate_health import AWAY, FINE, NOW, ONE, STREAM, alert, late


def test_many_problems_of_one_code_are_one() -> None:
    clusters = [replace(AWAY, name=f"c{n}", since=NOW - timedelta(minutes=n)) for n in range(5)]
    (problem,) = estate_health(replace(FINE, clusters=clusters, distributors=())).problems
    assert problem.text == "c0, c1, c2 and 2 more are offline."
    assert problem.since == NOW - timedelta(minutes=4) and problem.way_out.address == "/clusters"
    rows = [late(replace(ONE, level=n)) for n in range(1, 6)]
    (problem,) = estate_health(replace(FINE, distributors=rows)).problems
    assert problem.text == (
        "5 distributors, c1 level 1, c1 level 2, c1 level 3 and 2 more, are late: "
        "records wait longer than the objective."
    )


@pytest.mark.parametrize("reason, end", [("policy", "and 1 more: policy."), ("no space", "and 1 more.")])
def test_problems_that_are_summed_up_name_a_cause_only_if_it_is_the_same(reason: str, end: str) -> None:
    streams = [replace(STREAM, cluster=name) for name in ("c1", "c2", "c3")]
    streams.append(replace(STREAM, cluster="c4", reason=reason))
    (problem,) = estate_health(replace(FINE, not_applied=streams)).problems
    assert problem.way_out.address == "/timeline?name=StreamApplyFailed"
    assert (
        problem.text == f"4 streams (acme/retail/prod/orders and others) could not be applied on c1, c2, c3 {end}"
    )


def test_alerts_of_several_clusters_lead_to_all_clusters() -> None:
    found = [alert("broker-away", f"c{number}") for number in range(4)]
    (problem,) = estate_health(replace(FINE, replication=found)).problems
    assert problem.way_out.address == "/clusters" and problem.advice == "Do it."
    mixed = [*found[:3], replace(found[3], what_to_do="Do something else.")]
    (problem,) = estate_health(replace(FINE, replication=mixed)).problems
    assert problem.advice == "Open the replication of each cluster, which says what to do."


def test_several_projections_that_are_behind_are_said_in_the_plural() -> None:
    health = estate_health(replace(FINE, projections={"trees": 1, "streams": 12}))
    assert health.verdict.startswith("The projections of streams, trees lack up to 12 events: ")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "h:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after 0ms in state CONNECT)",
            "Connection refused at h:9",
        ),
        (
            "sasl_ssl://b1.example:9093/1: Connect to ipv4#10.0.0.1:9093 failed: Connection refused "
            "(after 2ms in state CONNECT, 3 identical error(s) suppressed)",
            "Connection refused at b1.example:9093",
        ),
        (
            "sasl_ssl://b1:9093/bootstrap: SASL authentication error: bad password (after 5ms in state AUTH_REQ)",
            "SASL authentication error: bad password at b1:9093",
        ),
        (
            "ssl://b1.example:9093/bootstrap: SSL handshake failed: certificate verify failed: unknown CA",
            "SSL handshake failed: certificate verify failed: unknown CA at b1.example:9093",
        ),
        ("127.0.0.1:9: Connect to ipv4#127.0.0.1:9 failed: Timed out (after 1ms)", "Timed out at 127.0.0.1:9"),
        ("no answer within 5 s.", "no answer within 5 s"),
    ],
)
def test_the_gist_of_a_reason_is_the_error_and_the_address(reason: str, said: str) -> None:
    assert gist(reason) == said
