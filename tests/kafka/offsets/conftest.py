"""Streams of a test's own on the shared estate, whose workers translate and apply groups' commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.kafka.offsets.at_once import Case, cases_of
from tests.support.api.rest_client import RestClient
from tests.support.estate.groups import Groups, Made, on_a_stream
from tests.support.estate.running import RunningEstate


@pytest.fixture(scope="package")
def rest(estate: RunningEstate) -> RestClient:
    return RestClient(estate.url, estate.token)


@pytest.fixture(scope="package")
def servers(estate: RunningEstate) -> dict[str, str]:
    return {name: row["bootstrap_servers"] for name, row in estate.status()["clusters"].items()}


@pytest.fixture(scope="module")
def make_groups(servers: dict[str, str], rest: RestClient) -> Iterator[Made]:
    """Return a factory of streams in a margin or an exact environment, with the group that reads them."""
    made: list[Groups] = []

    def make(mode: str, partitions: int = 1, margin_seconds: int = 60, **settings: object) -> Groups:
        made.append(on_a_stream(rest, servers, mode, partitions, margin_seconds, **settings))
        return made[-1]

    yield make
    for groups in made:
        groups.delete()


@pytest.fixture(scope="module")
def started(request: pytest.FixtureRequest, make_groups: Made) -> Iterator[Callable[[Case], Future[None]]]:
    """Run all cases of the module in this session, each in a thread; return the future of one."""
    cases = cases_of(request.session.items, request.node.nodeid)
    with ThreadPoolExecutor(len(cases)) as threads:
        running = {case: threads.submit(case, make_groups) for case in cases}
        yield running.__getitem__
