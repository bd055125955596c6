"""Tasks without a worker session are released, whatever has happened to the guarding thread."""

from __future__ import annotations

import threading
import time

import pytest

from backend.domain.distribution.assignment import Task
from backend.settings import settings
from tests.eventually import eventually
from tests.support.database.postgres import Database
from workers.distribution.worker_session import TaskHost


class Unstoppable:
    """Stand-in for a task's thread; stopping it fails."""

    task = Task("c1", 2, 0)

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.asked = 0

    def stop(self) -> None:
        self.asked += 1
        raise self.failure


def guards() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "guard"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("failure", [RuntimeError("it cannot be stopped"), SystemExit()], ids=repr)
def test_a_guard_that_fails_keeps_no_later_session_from_starting_and_tries_again(database: Database, failure):
    """Check the guard: it survives an exception; if its thread dies, the next session starts another."""
    task = Unstoppable(failure)
    host = TaskHost(database.engine, settings().model_copy(update={"lease_ttl_seconds": 0.02}))
    host._threads[task.task] = task
    host._looked_after = time.monotonic() - 86_400
    others = guards()
    try:
        host.run_session(0.0, lambda _: False)
        eventually(lambda: task.asked, "the tasks were to be let go")
        if isinstance(failure, SystemExit):
            eventually(lambda: guards() == others, "the guard has died")
        asked = task.asked
        host.run_session(0.0, lambda _: False)
        eventually(lambda: task.asked > asked, "it was tried again")
    finally:
        task.failure = SystemExit()
        eventually(lambda: guards() == others, "the guard has ended")
