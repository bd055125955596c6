"""Workers that do not report, and tasks that no worker takes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from backend.domain.overview.cluster_problems import SILENT_AFTER
from backend.domain.overview.distributor_problems import WAITING_AFTER
from backend.domain.overview.estate_facts import ClusterFact, EstateFacts, WorkersFact
from backend.domain.overview.estate_health import estate_health
from tests.unit.overview.test_estate_health import C1, EARLIER, FINE, NOW, ONE, OTHER, WAITING


@pytest.mark.parametrize(
    "reported_at, clusters, is_silent",
    [
        (NOW - SILENT_AFTER, (C1,), False),
        (NOW - SILENT_AFTER - timedelta(seconds=1), (C1,), True),
        (None, (C1,), True),
        (None, (), False),
    ],
)
def test_workers_are_missed_where_they_have_something_to_do(
    reported_at: datetime | None, clusters: tuple[ClusterFact, ...], is_silent: bool
) -> None:
    starting = (replace(ONE, state="starting", in_time=None),) if clusters else ()
    workers = WorkersFact(copied_at=reported_at, controlled_at=reported_at)
    facts = EstateFacts(now=NOW, clusters=clusters, distributors=starting, workers=workers)
    codes = [each.code for each in estate_health(facts).problems]
    assert ("workers-silent" in codes) is is_silent
    # Without workers, what they would report is not said.
    assert codes == (["workers-silent"] if is_silent else ["distributor-starting"] if clusters else [])


@pytest.mark.parametrize(
    "since, code", [(NOW - WAITING_AFTER, "distributor-starting"), (EARLIER, "distributor-waiting")]
)
def test_tasks_may_wait_for_a_worker_for_some_time(since: datetime, code: str) -> None:
    facts = replace(FINE, distributors=(replace(WAITING, waiting_since=since), OTHER))
    (problem,) = estate_health(facts).problems
    assert problem.code == code and problem.since == (EARLIER if since == EARLIER else None)


@pytest.mark.parametrize(
    "workers, code",
    [
        (WorkersFact(controlled_at=NOW), "copying-silent"),
        (WorkersFact(copied_at=NOW), "control-silent"),
        (WorkersFact(), "workers-silent"),
    ],
)
def test_workers_of_each_kind_are_missed(workers: WorkersFact, code: str) -> None:
    (problem,) = estate_health(replace(FINE, workers=workers)).problems
    assert problem.code == code and "has reported yet" in problem.text and problem.since is None
