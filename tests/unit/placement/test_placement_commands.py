"""`treeline placement` without a control plane."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backend.cli import app
from backend.settings import PROJECT_ROOT

BROKERS = [{"id": each, "rack": f"az{each % 3}"} for each in range(1, 7)]
QUESTION: dict[str, Any] = {
    "brokers": BROKERS,
    "target_brokers": [1, 2, 3, 4, 5, 6],
    "partitions": [
        {"topic": "orders", "partition": number, "replicas": [1, 2, 3], "size_bytes": 100} for number in range(6)
    ],
}


def treeline(*words: str, stdin: str = "") -> Result:
    """Run the command in this process, which has imported the solver already."""
    return CliRunner().invoke(app, ["placement", *words], input=stdin)


def test_the_program_plans_where_nothing_of_an_estate_is() -> None:
    words = [sys.executable, "-m", "backend.cli", "placement", "plan", "--input", "-", "--json"]
    given = json.dumps(QUESTION)
    done = subprocess.run(words, input=given, capture_output=True, text=True, cwd=PROJECT_ROOT, check=False)
    assert done.returncode == 0, done.stderr
    here = treeline("plan", "--input", "-", "--json", stdin=given)
    assert (here.stdout, here.stderr) == (done.stdout, done.stderr)


def test_a_plan_is_told_with_its_bound(tmp_path: Path) -> None:
    question, moves = tmp_path / "question.json", tmp_path / "moves.json"
    question.write_text(json.dumps(QUESTION))
    done = treeline("plan", "--input", str(question), "--json", "--reassignment", str(moves))
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["moves"], found["lower_bound"], found["violations"]) == (9, 9, [])
    assert set(found["replicas_per_broker"].values()) == {3} and set(found["leaders_per_broker"].values()) == {1}
    assert len(found["partitions"]) == 6 and found["digest"] in done.stderr
    assert "9 replica moves (the minimum), 900 bytes" in done.stderr
    changed = {each["partition"]: each["replicas"] for each in json.loads(moves.read_text())["partitions"]}
    rows = {each["partition"]: each["replicas"] for each in found["partitions"]}
    assert changed.items() <= rows.items() and changed
    again = treeline("plan", "--input", "-", "--json", stdin=json.dumps(QUESTION))
    assert json.loads(again.stdout) == found


def test_a_plan_is_shown_by_broker() -> None:
    done = treeline("plan", "--input", "-", stdin=json.dumps(QUESTION))
    assert done.exit_code == 0 and "leaders_after" in done.stdout and "az2" in done.stdout


def test_what_cannot_be_kept_is_told_and_stays() -> None:
    done = treeline("plan", "--input", "-", "--json", stdin=json.dumps({**QUESTION, "target_brokers": [1, 2]}))
    found = json.loads(done.stdout)
    assert (done.exit_code, found["moves"], found["violations"][0]["count"]) == (0, 0, 6)
    assert (
        "replication-factor: 6 partitions: 3 replicas need 3 brokers, and only 2 may hold replicas" in done.stderr
    )


def test_bad_input_is_refused_with_its_place(tmp_path: Path) -> None:
    for text, told in (
        ("{", "-: invalid JSON:"),
        ("[]", "-: /: must be an object"),
        (json.dumps({**QUESTION, "target_brokers": [9]}), "/target_brokers: 9 not among the cluster's brokers"),
    ):
        done = treeline("plan", "--input", "-", "--json", stdin=text)
        assert (done.exit_code, done.stdout) == (2, "") and told in done.stderr, done.stderr
    done = treeline("plan", "--input", str(tmp_path / "none.json"))
    assert done.exit_code == 2 and "No such file" in done.stderr


GIVEN: dict[str, Any] = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3]}]}


def test_a_reassignment_from_a_file_is_the_plan_and_is_written_as_it_was(tmp_path: Path) -> None:
    given, moves = tmp_path / "given.json", tmp_path / "moves.json"
    given.write_text(json.dumps(GIVEN))
    words = ["plan", "--input", "-", "--from-reassignment", str(given), "--json", "--reassignment", str(moves)]
    done = treeline(*words, stdin=json.dumps(QUESTION | {"target_brokers": [1]}))
    assert done.exit_code == 2 and "/target_brokers: cannot be combined with a reassignment" in done.stderr
    cluster = {name: QUESTION[name] for name in ("brokers", "partitions")}
    done = treeline(*words, stdin=json.dumps(cluster))
    assert done.exit_code == 0, done.stderr
    assert "1 replica moves (as submitted), 100 bytes" in done.stderr
    found = json.loads(done.stdout)
    assert (found["moves"], found["given"], json.loads(moves.read_text())) == (1, True, GIVEN)
    given.write_text('{"version": 1, "partitions": [], "partitions": []}')
    refused = treeline(*words, stdin=json.dumps(cluster))
    assert refused.exit_code == 2 and f'{given}: an object has "partitions" twice' in refused.stderr


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "moves.json"
    done = treeline("plan", "--input", "-", "--reassignment", str(nowhere), stdin=json.dumps(QUESTION))
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{nowhere} cannot be written: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_new_topic_is_placed() -> None:
    brokers = json.dumps([{"id": each} for each in range(5)])
    wanted = ("initial", "--brokers", "-", "--replication-factor", "3", "--json")
    found = json.loads(treeline(*wanted, "--partitions", "25", "--topic", "orders", stdin=brokers).stdout)
    literal = json.loads(treeline(*wanted, "--partitions", "25", "--literal", stdin=brokers).stdout)
    assert found["partitions"][5] == {"topic": "orders", "partition": 5, "replicas": [0, 2, 3]}
    assert sum(len(set(each["replicas"])) < 3 for each in literal["partitions"]) == 10
    assert all(len(set(each["replicas"])) == 3 for each in found["partitions"])
    refused = treeline(
        "initial", "--brokers", "-", "--replication-factor", "6", "--partitions", "1", stdin=brokers
    )
    assert refused.exit_code == 2 and "6 replicas need 6 brokers, and there are 5" in refused.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "use either --input or --cluster"),
        (["--input", "-", "--cluster", "c1"], "use either --input or --cluster"),
        (["--input", "-", "--target-brokers", "1,2"], "need --cluster"),
        (["--input", "-", "--from-reassignment", "-"], "cannot both read stdin"),
        (["--cluster", "c1", "--rounds", "rounds"], "--rounds can only be used with --input"),
        (["--cluster", "c1", "--target-brokers", "1,x"], "'1,x' is not a list of broker ids"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], told: str) -> None:
    done = treeline("plan", *words)
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


def test_a_plan_is_written_in_rounds_that_load_no_broker_with_more_than_it_may(tmp_path: Path) -> None:
    folder = tmp_path / "rounds"
    words = ["plan", "--input", "-", "--rounds", str(folder), "--moves-per-broker", "2", "--json"]
    done = treeline(*words, stdin=json.dumps(QUESTION))
    assert done.exit_code == 0, done.stderr
    here = {(row["topic"], row["partition"]): row["replicas"] for row in QUESTION["partitions"]}
    files = sorted(folder.iterdir())
    assert len(files) >= 2 and f"wrote {len(files)} rounds to" in done.stderr
    for file in files:
        loads: dict[int, int] = {}
        for row in json.loads(file.read_text())["partitions"]:
            before, after = here[row["topic"], row["partition"]], row["replicas"]
            assert len(set(after) - set(before)) <= 1 and len(after) == 3
            if set(before) != set(after):
                for broker in {before[0], *set(before) ^ set(after)}:
                    loads[broker] = loads.get(broker, 0) + 1
            here[row["topic"], row["partition"]] = after
        assert max(loads.values(), default=0) <= 2
    found = json.loads(done.stdout)
    assert here == {(row["topic"], row["partition"]): row["replicas"] for row in found["partitions"]}
    again = treeline(*words, stdin=json.dumps(QUESTION))
    assert (again.exit_code, "already has rounds" in again.stderr) == (2, True)


def test_rounds_end_where_a_partition_has_nobody_to_copy_from(tmp_path: Path) -> None:
    lost = {"topic": "orders", "partition": 9, "replicas": [77, 78, 79]}
    question = {**QUESTION, "partitions": [*QUESTION["partitions"], lost]}
    done = treeline("plan", "--input", "-", "--rounds", str(tmp_path), stdin=json.dumps(question))
    assert done.exit_code == 1 and "the plan is blocked: orders-9: it has no leader" in done.stderr, done.stderr
