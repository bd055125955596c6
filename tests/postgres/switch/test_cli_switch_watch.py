"""`treeline switch watch` shows how many records are still to come, and of which partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.domain.switch.switch_commands import OPERATOR, Abort
from tests.support.api.program import program_of
from tests.support.console.switching import DRAINING, commands, lacking, told
from tests.support.database.postgres import Database

ORDERS = "acme/retail/prod/orders"
WORST = [lacking(partition, records) for partition, records in ((3, 1_150), (1, 40), (0, 9), (2, 5))]


@pytest.mark.parametrize(
    ("news", "line"),
    [
        (
            {"lacking": WORST, "left": 31},
            f"waiting for at most 1,204 records: {ORDERS}/3 on c2 1,150, {ORDERS}/1 on c2 40, {ORDERS}/0 on c2 9 "
            "and 28 more partitions",
        ),
        (
            {"lacking": WORST[:2], "left": 2},
            f"waiting for at most 1,204 records: {ORDERS}/3 on c2 1,150, {ORDERS}/1 on c2 40",
        ),
        ({}, "waiting for at most 1,204 records"),
    ],
)
def test_those_that_lack_most_are_named_and_the_others_counted(
    database: Database, tmp_path: Path, news: dict[str, Any], line: str
) -> None:
    commands(database, *DRAINING)
    told(database, missing_records=1_204, **news)
    with program_of(database.url, tmp_path) as program:
        running = program.start("switch", "watch", "s1", "-o", "json")
        assert running.stderr is not None
        first = [running.stderr.readline() for _ in range(3)]
        commands(database, Abort(by=OPERATOR))
        _, rest = running.communicate()
    assert first[0].startswith("switch s1") and first[1].endswith("draining\n")
    assert first[2].strip() == line
    assert running.returncode == 1 and "aborted" in rest
