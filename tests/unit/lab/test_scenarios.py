"""Each defect of the documents: in faithful mode found by exactly its invariant, in fixed mode absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.rules import FAITHFUL, FIXED
from backend.replication_lab.runs.drills import drill, summary
from backend.replication_lab.runs.play import play
from backend.replication_lab.runs.recovery import has_recovered
from backend.replication_lab.runs.shrinking import shrink, violating
from backend.replication_lab.scenarios import SCENARIOS

SEEDS, NIGHTLY_SEEDS = 20, 1_000
STORIES = 3
"""Seeds of which the whole story is shrunk."""
MORE_SEEDS = [
    pytest.param(range(SEEDS), id="some"),
    pytest.param(range(NIGHTLY_SEEDS), marks=pytest.mark.nightly, id="many"),
]
EACH = pytest.mark.parametrize("name", SCENARIOS)
SHRUNK = pytest.mark.parametrize(
    "name", [name for name, each in SCENARIOS.items() if each.violated is not Invariant.NEVER_SETTLES]
)
IN_ANOTHER_PROCESS = """
import json, sys
from backend.replication_lab.runs.play import play
from backend.replication_lab.scenarios import SCENARIOS
modes = ("faithful", "fixed")
runs = {f"{name} {mode}": play(each, mode, 7).steps for name, each in SCENARIOS.items() for mode in modes}
json.dump(runs, sys.stdout)
"""


@EACH
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_faithful_mode_violates_just_the_named_invariant(name, seeds):
    found = {seed: play(SCENARIOS[name], FAITHFUL.mode, seed).violated for seed in seeds}
    assert found == dict.fromkeys(seeds, SCENARIOS[name].violated)


@EACH
def test_no_defect_is_one_of_how_the_election_waits(name):
    """leaderElection's wait can be read in two ways: scenarios use one of them, and the other fixes nothing."""
    other = replace(SCENARIOS[name], readings=replace(SCENARIOS[name].readings, yields_to_higher_hw=True))
    assert None not in {play(other, FAITHFUL.mode, seed).violated for seed in range(SEEDS)}


@EACH
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_fixed_mode_holds_settles_and_loses_nothing(name, seeds):
    for seed in seeds:
        world = play(SCENARIOS[name], FIXED.mode, seed).world
        assert (seed, world.history.violated, world.history.what) == (seed, None, "")
        assert (seed, has_recovered(world)) == (seed, True)
        assert (seed, world.history.expected_losses) == (seed, ())


@EACH
@pytest.mark.parametrize("mode", [FAITHFUL.mode, FIXED.mode])
def test_the_same_seed_gives_the_same_run(name, mode):
    scenario = SCENARIOS[name]
    one, other = play(scenario, mode, 7), play(scenario, mode, 7)
    assert one.steps == other.steps
    assert one.world.key() == other.world.key()
    assert one.world.now == other.world.now


def test_the_same_seed_gives_the_same_run_in_another_process_whatever_its_hash_seed():
    runs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
        runs.append(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    here = {
        f"{name} {mode}": play(each, mode, 7).steps
        for name, each in SCENARIOS.items()
        for mode in (FAITHFUL.mode, FIXED.mode)
    }
    assert runs[0] == runs[1]
    assert json.loads(runs[0]) == json.loads(json.dumps(here))


@EACH
def test_seeds_differ(name):
    """Different seeds must differ, or many seeds would prove no more than one."""
    assert len({play(SCENARIOS[name], FIXED.mode, seed).steps for seed in range(STORIES)}) == STORIES


@SHRUNK
@pytest.mark.parametrize("seed", range(STORIES))
def test_a_story_violates_its_invariant_at_the_last_step_and_no_step_can_be_left_out(name, seed):
    scenario = SCENARIOS[name]
    played = play(scenario, FAITHFUL.mode, seed)
    story = shrink(scenario.world(FAITHFUL.mode), played.steps, scenario.violated)
    assert story.is_fewest
    assert story.skipped + len(story.steps) <= len(played.steps)

    world = story.start.copy()
    assert world.patient
    for number, action in enumerate(story.steps, 1):
        assert perform(world, action)
        assert world.history.violated is (scenario.violated if number == len(story.steps) else None)
    for left_out in range(len(story.steps)):
        fewer = story.steps[:left_out] + story.steps[left_out + 1 :]
        assert violating(story.start, fewer, scenario.violated) is None


@SHRUNK
def test_a_drill_tells_each_step_of_its_story_with_the_violation_in_words(name):
    told = drill(name, FAITHFUL.mode, 0, with_frames=True).document()
    assert told["violated"] == SCENARIOS[name].violated
    assert told["what"] and told["invariant"]
    assert len(told["story"]) == told["step"] == len(told["frames"]) - 1
    assert json.loads(json.dumps(told)) == told
    assert "frames" not in drill(name, FAITHFUL.mode, 0).document()


@EACH
def test_the_list_says_what_each_mode_gives(name):
    said = summary(SCENARIOS[name])
    assert said["name"] == name
    assert said["expected"] == {
        mode: violated or "holds"
        for mode in (FAITHFUL.mode, FIXED.mode)
        for violated in [drill(name, mode, 1).violated]
    }
