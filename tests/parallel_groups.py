"""Assignment of tests to parallel processes: tests that share something slow to boot run in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

# In starting order: the longest first, but not three estates at the same time, which take so much to boot that
# each would wait for the others.
FOLDERS_THAT_SHARE = {
    "tests/faults/five/": "an estate that may be broken",
    "tests/access/": "an estate where clients log in",
    "tests/architecture/": "all files, parsed once",
    "tests/faults/small/": "a small estate that may be broken",
    "tests/client/": "two clusters that clients are moved between",
    "tests/replication_live/": "brokers that are killed by a schedule",
    # A switch delays the translation of commits for as long as it holds clients.
    "tests/offsets/": "groups that commit",
    "tests/switches/": "groups that commit",
    # Its batches on Spark delay a switch, which waits for their end.
    "tests/spark/test_translator.py": "groups that commit",
    # It pauses a distributor of the session's estate, and a paused distributor blocks a switch.
    "tests/integration/test_rest_edge_losses.py": "groups that commit",
    "tests/placement_live/": "brokers that may be killed",
    "tests/zone_router_live/": "brokers behind the nodes of their zones",
    "tests/zone_router_zones/": "zones as network namespaces",
    "tests/spark/": "a session of Spark",
}


BESIDE_FOLDERS = ("tests/pages/", "tests/registry/", "tests/simulation/", "tests/docs/")
"""Folders that run beside those that need the session's estate."""
LONG = ("tests/pages/", "tests/registry/", "tests/integration/test_copy_session.py")
"""Files that take the longest among those that start last."""


def shared_with(test: str) -> str:
    """Return what a test shares its process with, by its node id: that of its folder, or of its file."""
    for folder, shared in FOLDERS_THAT_SHARE.items():
        if test.startswith(folder):
            return shared
    return test.split("::", 1)[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that use the session's estate last, together: an estate costs a fifth of a core.

    In either half whole folders come first: one that began last would keep a process waiting for the others.
    Therefore the late half's folders begin while the others still have minutes of work that needs no estate.
    """
    late = {shared_with(item.nodeid) for item in items if "estate" in getattr(item, "fixturenames", ())}
    folders = list(dict.fromkeys(FOLDERS_THAT_SHARE.values()))

    def turn(item: pytest.Item) -> tuple[bool, bool, int, bool]:
        shared = shared_with(item.nodeid)
        is_late, is_folder = shared in late, shared in folders
        beside = is_late or item.nodeid.startswith(BESIDE_FOLDERS)
        place = folders.index(shared) if is_folder else len(folders)
        return is_late and not is_folder, beside, place, not item.nodeid.startswith(LONG)

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # Without xdist nothing runs in parallel, and this module must work without it.
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsShared(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return shared_with(nodeid)

    return ByWhatIsShared(config, log)
