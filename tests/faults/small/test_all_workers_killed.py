"""kill -9 of all of Celery while two clusters exchange records: all arrive exactly once, without intervention."""

from __future__ import annotations

from tests.faults.five.test_worker_killed import all_of_celery, every_record_arrives_once
from tests.faults.runs import Place
from tests.support.estate.running import RunningEstate


def test_every_record_arrives_once_although_all_workers_are_killed(small: RunningEstate) -> None:
    every_record_arrives_once(Place(small), all_of_celery, looked_at="cluster-2")
