"""Translated offsets on the shared estate, with its distributors, translator and committers running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.eventlog.engine import create_engine
from backend.settings import Settings
from tests.faults.runs import Place
from tests.kafka.switch.by_hand import until
from tests.support.estate.groups import Made, numbered
from tests.support.estate.running import RunningEstate
from workers.switches.closing import GroupClosing
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView

OLD, NEW = "cluster-1", "cluster-5"


@pytest.fixture
def view(estate: RunningEstate) -> Iterator[EstateView]:
    settings = Settings(database_url=Place(estate).database_url())
    engine = create_engine(settings.database_url)
    found = EstateView(engine, settings)
    yield found
    found.close()
    engine.dispose()


@pytest.mark.nightly
def test_a_group_moves_with_its_records_and_committers_leave_it_there(make_groups: Made, view: EstateView):
    groups = make_groups("margin", partitions=2)
    drain = Drain(view, OLD, [NEW, "cluster-3"], [groups.stream])
    closing = GroupClosing(view, OLD, NEW, [groups.place[:3]], [groups.stream])
    for partition in range(2):
        groups.produce(OLD, numbered(100), partition)
    drain.warm_up()
    first = groups.offset_of(OLD, "r0010")
    groups.commit(OLD, first)
    groups.until_applied(OLD, first)
    closing.warm_up()
    groups.produce(OLD, numbered(50, 100))
    drain.mark()
    assert until(drain).total == 4
    for cluster in (NEW, "cluster-3"):
        assert [value for _, value in groups.log(cluster)] == numbered(150), "all of it is there"
    last = groups.offset_of(OLD, "r0120")
    groups.commit(OLD, last)
    (one,) = closing.translate(2, 3)
    assert (one.refused, one.settled, one.re_read_bound) == (None, True, 0)
    assert groups.next_value(NEW) == "r0120", "exact, though the environment has a margin"
    stood = groups.stands(NEW)
    # The translator brings the same commit to the committers, and one of a consumer that was left behind.
    others = ("cluster-2", "cluster-3", "cluster-4")
    groups.until_applied(OLD, last, 0, "applied", *others)
    left_behind = groups.offset_of(OLD, "r0140")
    groups.commit(OLD, left_behind)
    groups.until_applied(OLD, left_behind, 0, "applied", *others)
    # By then the committer of the new cluster has seen them, too.
    next_one = groups.another()
    next_one.commit(OLD, left_behind)
    next_one.until_applied(OLD, left_behind)
    assert groups.stands(NEW) == stood
    # The rows stored by the translator are used unchanged.
    (again,) = [each for each in closing.translate(3, 3) if each.group_partition.group == groups.group]
    assert again.source_offset == left_behind and groups.next_value(NEW) == "r0140"
