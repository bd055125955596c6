"""Drills of replication over REST: listed, played, refused; nothing of them is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backend.replication_lab.scenarios import SCENARIOS
from tests.support.api.callers import As, new_user
from tests.support.api.rest import Rest, problem, shared_rest
from tests.support.database.postgres import RunningPostgres

DRILLS = "/drills/replication"
LOSS = f"{DRILLS}/hw-truncation-loss"


@pytest.fixture(scope="module")
def rest(postgres: RunningPostgres) -> Iterator[Rest]:
    with shared_rest(postgres) as rest:
        yield rest


def ok(rest: Rest | As, path: str) -> Any:
    answer = rest("GET", path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_all_scenarios_are_listed_with_what_each_mode_gives(rest: Rest) -> None:
    found = ok(rest, DRILLS)
    assert [each["name"] for each in found["scenarios"]] == list(SCENARIOS)
    assert found["modes"][:2] == ["faithful", "fixed"]
    for each in found["scenarios"]:
        assert each["title"] and each["document"] and each["expected"]["fixed"] == "holds"
        assert each["expected"]["faithful"] in found["invariants"]


def test_the_documents_lose_a_committed_record_and_what_kafka_has_since_does_not(rest: Rest) -> None:
    faithful, fixed = ok(rest, LOSS), ok(rest, f"{LOSS}?mode=fixed&seed=7")
    assert (faithful["scenario"], faithful["mode"], faithful["seed"]) == ("hw-truncation-loss", "faithful", 1)
    assert faithful["violated"] == "committed_record_lost" and "lacks committed" in faithful["what"]
    assert len(faithful["story"]) == faithful["step"] < faithful["steps_taken"]
    assert "frames" not in faithful
    assert (fixed["violated"], fixed["what"], fixed["seed"]) == (None, None, 7)


def test_a_run_is_the_same_each_time_and_its_frames_follow_its_story(rest: Rest) -> None:
    once, again = (ok(rest, f"{LOSS}?seed=3&frames=true") for _ in range(2))
    assert once == again
    assert [each["text"] for each in once["frames"]] == [once["beginning"], *once["story"]]
    last = once["frames"][-1]
    leader = next(each for each in last["brokers"] if each["id"] == last["store"]["leader"])
    assert [each["record"] for each in leader["log"]] != last["committed"]


@pytest.mark.parametrize("name", ["nothing", "NO%20NAME", "%00", "x" * 500])
def test_a_scenario_that_there_is_not_is_unknown(rest: Rest, name: str) -> None:
    assert "there is no scenario" in problem(rest("GET", f"{DRILLS}/{name}"), 404, "not-found")["detail"]


@pytest.mark.parametrize(
    ("query", "parameter", "sentence"),
    [
        ("mode=quick", "mode", "there is no mode 'quick'; use one of faithful, fixed"),
        ("seed=-1", "seed", "the seed is -1: it must be 0 to 9223372036854775807"),
        (f"mode=fixed&seed={2**63}", "seed", f"the seed is {2**63}: it must be 0 to"),
        ("seed=x", "seed", "a valid integer"),
        ("frames=perhaps", "frames", "a valid boolean"),
    ],
)
def test_what_cannot_be_played_names_its_place_and_what_would_do(
    rest: Rest, query: str, parameter: str, sentence: str
) -> None:
    found = problem(rest("GET", f"{LOSS}?{query}"), 422, "invalid")
    assert found["detail"].startswith(f"{parameter}: ") and sentence in found["detail"]
    assert [each["parameter"] for each in found["errors"]] == [parameter]


def test_a_parameter_that_is_not_taken_is_refused(rest: Rest) -> None:
    assert "mode, seed" in problem(rest("GET", f"{LOSS}?sed=2"), 422, "value-invalid")["detail"]


def test_who_may_look_at_the_estate_may_drill_and_nothing_is_recorded(rest: Rest) -> None:
    viewer, nobody = new_user(rest, "vera", "viewer"), new_user(rest, "tom", "tenant")
    head = rest.head()
    assert ok(viewer, DRILLS)["scenarios"] and ok(viewer, LOSS)["violated"]
    for path in (DRILLS, LOSS):
        problem(nobody("GET", path), 403, "not-allowed")
    assert rest.head() == head


CRASH = {"at_ms": 500, "fault": "crash", "broker": 1, "for_ms": 2_000}


def test_faults_of_ones_own_are_played(rest: Rest) -> None:
    answer = rest("POST", f"{DRILLS}?seed=4", {"faults": [CRASH]})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["mode"], found["violated"]) == ("fixed", None)
    assert "Broker 1 crashes" in found["story"] and found["longest_gap_ms"] > 0
    faithful = rest("POST", f"{DRILLS}?seed=4&mode=faithful", {"faults": [CRASH]}).json()
    assert faithful["violated"] is not None


def test_an_unclean_election_is_played_and_its_losses_are_expected(rest: Rest) -> None:
    stands_still = {"at_ms": 3_400, "fault": "pause", "broker": 1, "for_ms": 3_000}
    shape = {"brokers": 2, "replication_factor": 2, "min_isr": 1, "unclean_election": True, "gives_way": False}
    faults = [{**CRASH, "broker": 2, "for_ms": 3_000}, stands_still]
    found = rest("POST", DRILLS, {**shape, "faults": faults}).json()
    assert found["violated"] is None and found["expected_losses"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"brokers": 2, "faults": [CRASH]}, "replication_factor is 3, but there are 2 brokers"),
        ({"min_isr": 4, "faults": [CRASH]}, "min_isr is 4, above the replication factor 3"),
        ({"faults": [{**CRASH, "broker": 7}]}, "there is no broker 7; there are 1 to 3"),
        ({"faults": [{"at_ms": 500, "fault": "crash", "broker": 1}]}, "is never healed"),
        ({"faults": [{**CRASH, "fault": "flood"}]}, "is a 'flood', which is unknown; use one of crash,"),
        ({"faults": [CRASH, {**CRASH, "at_ms": 600}]}, "overlaps the one before, which lasts until 2500 ms"),
        ({"faults": []}, "faults"),
        ({"faults": [CRASH], "topics": 3}, "topics"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_the_reason(
    rest: Rest, body: dict[str, Any], sentence: str
) -> None:
    answer = rest("POST", DRILLS, body)
    assert answer.status_code == 422 and sentence in answer.text, answer.text
