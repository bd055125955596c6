"""`treeline drill`: its output, and the requests that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from backend.commands.lab import drill
from backend.replication_lab.scenarios import SCENARIOS

app = typer.Typer()
drill.register(app)
app.command("beside")(lambda: None)  # an app with a single command has no subcommands

LOSS = ("--scenario", "hw-truncation-loss")
CRASH = {"at_ms": 500, "fault": "crash", "broker": 1, "for_ms": 2_000}


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["drill", *words], input=text)


def answered(*words: str, text: str | None = None) -> Any:
    result = run(*words, "--json", text=text)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_scenarios_are_listed_with_what_each_mode_gives() -> None:
    found = answered("replication", "--list")
    assert [each["name"] for each in found] == list(SCENARIOS)
    assert all(set(each["expected"]) == {"faithful", "fixed"} and each["document"] for each in found)
    assert "hw-truncation-loss" in run("replication", "--list").stdout


@pytest.mark.parametrize("seed, steps", [("0", 14), ("1", 15), ("77", 15)])
def test_a_scenario_is_played_and_told_in_steps(seed: str, steps: int) -> None:
    found = answered("replication", *LOSS, "--mode", "faithful", "--seed", seed)
    assert (found["scenario"], found["mode"], found["violated"]) == (
        "hw-truncation-loss",
        "faithful",
        "committed_record_lost",
    )
    assert found["step"] == len(found["story"]) == steps
    fixed = answered("replication", *LOSS, "--mode", "fixed", "--seed", seed)
    assert fixed["violated"] is None and fixed["story"]


def test_in_a_terminal_it_is_a_story_that_ends_with_what_was_violated() -> None:
    said = run("replication", *LOSS).stdout
    assert "    15  All live replicas have caught up with broker 2" in said
    assert said.endswith("Broker 2 leads, and its log, which ends at 2, lacks committed a0 (offset 2).\n")
    assert run("replication", *LOSS, "--mode", "fixed").stdout.endswith("Every invariant holds.\n")


def test_frames_have_all_brokers_after_each_step() -> None:
    frames = answered("replication", *LOSS, "--frames")["frames"]
    assert [each["step"] for each in frames] == list(range(16))
    assert [each["leo"] for each in frames[-1]["brokers"]] == [3, 2]
    assert frames[-1]["committed"] == ["z0", "z1", "a0"]


def test_faults_of_ones_own_are_read_from_a_file_or_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "drill.yaml"
    file.write_text("faults:\n- {at_ms: 500, fault: crash, broker: 1, for_ms: 2000}\n")
    found = answered("replication", "--schedule", str(file), "--mode", "fixed")
    assert (found["scenario"], found["violated"]) == ("schedule", None) and found["longest_gap_ms"] > 500
    assert found == answered(
        "replication", "--schedule", "-", "--mode", "fixed", text=json.dumps({"faults": [CRASH]})
    )


@pytest.mark.parametrize(
    ("words", "text", "sentence"),
    [
        ((), None, "Use exactly one of --list, --scenario NAME and --schedule FILE."),
        (("--list", *LOSS), None, "Use exactly one of"),
        (("--scenario", "none"), None, "there is no scenario 'none'; use one of hw-truncation-loss, "),
        ((*LOSS, "--mode", "quick"), None, "there is no mode 'quick'; use one of faithful, fixed"),
        ((*LOSS, "--mode", ""), None, "there is no mode ''; use one of"),
        ((*LOSS, "--seed", "-1"), None, "the seed is -1: it must be 0 to"),
        (("--schedule", "/nowhere"), None, "/nowhere cannot be read"),
        (("--schedule", "-"), "{", "-: line 2, column 1"),
        (("--schedule", "-"), "[]", "a schedule must be a mapping"),
        (("--schedule", "-"), "brokers: 3", "`faults` must be a list with at least one fault"),
        (("--schedule", "-"), json.dumps({"brokers": 2, "faults": [CRASH]}), "but there are 2 brokers"),
        (("--schedule", "-"), json.dumps({"min_isr": 9, "faults": [CRASH]}), "min_isr is 9"),
        (("--schedule", "-"), json.dumps({"faults": [{**CRASH, "broker": 4}]}), "there is no broker 4"),
        (("--schedule", "-"), json.dumps({"faults": [{**CRASH, "for_ms": 0}]}), "is never healed"),
        (("--schedule", "-"), json.dumps({"faults": [{"fault": "crash"}]}), "fault 1 has no at_ms"),
        (
            ("--schedule", "-"),
            json.dumps({"faults": [{**CRASH, "why": 1}]}),
            "fault 1 has 'why', which is unknown",
        ),
        (("--schedule", "-"), json.dumps({"faults": [{**CRASH, "at_ms": "now"}]}), "at_ms is 'now'"),
        (("--schedule", "-"), json.dumps({"faults": [{**CRASH, "fault": "cut"}]}), "needs `other`"),
        (
            ("--schedule", "-"),
            json.dumps({"faults": [CRASH] * 101}),
            "there are 101 faults; at most 100 are allowed",
        ),
        (("--schedule", "-"), json.dumps({"faults": ["crash"]}), "fault 1 is 'crash'"),
        (
            ("--schedule", "-"),
            json.dumps({"faults": [{**CRASH, "fault": ["crash"]}]}),
            "is a ['crash'], which is unknown",
        ),
        (("--schedule", "-"), "at_ms: 2024-13-45", "-: is no YAML"),
        (("--schedule", "-"), json.dumps({"gives_way": 1, "faults": [CRASH]}), "gives_way is 1"),
        (("--schedule", "-"), json.dumps({"unclean_election": 1, "faults": [CRASH]}), "unclean_election is 1"),
        (
            ("--schedule", "-"),
            json.dumps({"faults": [CRASH, {**CRASH, "fault": "pause", "at_ms": 600}]}),
            "begins while the broker is down",
        ),
        (("--schedule", "-"), json.dumps({"brokers": True, "faults": [CRASH]}), "brokers is True"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    words: tuple[str, ...], text: str | None, sentence: str
) -> None:
    result = run("replication", *words, text=text)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr and not result.stdout


@pytest.mark.nightly  # test_search
def test_every_order_of_steps_is_searched_with_the_states_counted() -> None:
    found = answered("search", "--depth", "4", "--crashes", "1")
    assert found["violated"] is None and len(found["states_by_depth"]) == 5
    assert found["states"] == sum(found["states_by_depth"])
    lost = answered(
        "search", "--mode", "kip-101", "--replicas", "3", "--crashes", "0", "--expiries", "2", "--depth", "9"
    )
    assert lost["violated"] and len(lost["story"]) == lost["depth"] + 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(("--mode", "best"), "there is no mode 'best'"), (("--min-isr", "3"), "min_isr is 3, above the replication")],
)
def test_a_search_that_cannot_be_is_refused(words: tuple[str, ...], sentence: str) -> None:
    result = run("search", *words)
    assert result.exit_code == 2 and sentence in result.stderr
