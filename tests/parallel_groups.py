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
    "tests/kafka/access/": "an estate where clients log in",
    "tests/project/architecture/": "all files, parsed once",
    "tests/faults/small/": "a small estate that may be broken",
    "tests/kafka/client/": "two clusters that clients are moved between",
    "tests/kafka/replication/": "brokers that are killed by a schedule",
    # A switch delays the translation of commits for as long as it holds clients.
    "tests/kafka/offsets/": "groups that commit",
    "tests/kafka/switch/": "groups that commit",
    # Its batches on Spark delay a switch, which waits for their end.
    "tests/kafka/spark/test_translator.py": "groups that commit",
    # It pauses a distributor of the session's estate, and a paused distributor blocks a switch.
    "tests/kafka/distribution/test_rest_edge_losses.py": "groups that commit",
    "tests/kafka/placement/": "brokers that may be killed",
    "tests/kafka/zones/": "brokers behind the nodes of their zones",
    "tests/kafka/zone_networks/": "zones as network namespaces",
    "tests/kafka/spark/": "a session of Spark",
}


CONSOLE = ("tests/browser/", "tests/unit/console/")
"""Folders that are about the console, as is every file whose tests have one served."""
SCHEMAS = tuple(
    f"tests/{room}/" for room in ("kafka/schemas", "postgres/schemas", "unit/schema_formats", "unit/schemas")
)
BESIDE = (*CONSOLE, *SCHEMAS, "tests/project/docs/", "tests/unit/simulation/")
"""Folders that run beside those that need the session's estate."""
LONGEST = "tests/kafka/distribution/test_copy_session.py"
LONG = (*CONSOLE, *SCHEMAS)
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

    def sharing(fixture: str) -> set[str]:
        return {shared_with(item.nodeid) for item in items if fixture in getattr(item, "fixturenames", ())}

    late, of_console = sharing("estate"), sharing("console") | sharing("sso")
    folders = list(dict.fromkeys(FOLDERS_THAT_SHARE.values()))

    def turn(item: pytest.Item) -> tuple[bool, bool, int, int]:
        shared = shared_with(item.nodeid)
        is_late, is_folder, is_console = shared in late, shared in folders, shared in of_console
        beside = is_late or is_console or item.nodeid.startswith(BESIDE)
        place = folders.index(shared) if is_folder else len(folders)
        is_long = is_console or item.nodeid.startswith(LONG)
        return is_late and not is_folder, beside, place, 0 if shared == LONGEST else 1 if is_long else 2

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # Without xdist nothing runs in parallel, and this module must work without it.
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsShared(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return shared_with(nodeid)

    return ByWhatIsShared(config, log)
