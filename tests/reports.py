"""`make reports`: run the tests of pages in a browser and of the REST API, and write docs/reports from them.

    python -m tests.reports              everything, some fifteen minutes
    python -m tests.reports weight rest  only these

All figures of a report were measured by the tests that it names, in this run; a test that fails is listed, and the
exit code is 1.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.settings import PROJECT_ROOT
from tests.report_facts import FOLDER

REPORTS = PROJECT_ROOT / "docs" / "reports"
BROWSER = {"browser", "open_page"}
"""Fixtures of tests that show pages in Chromium."""
ESTATE = {"estate", "boot_estate"}
QUIET = ["-q", "--no-header", "--show-capture=no", "-p", "no:cacheprovider"]
ENDS: list[int] = []
"""Exit codes of the runs so far."""
GENERATED = "<!-- Written by `make reports`; see tests/reports.py. -->"


class Outcomes:
    """Outcome of each test of a run; with `only_browser` only those run that need Chromium and no brokers."""

    def __init__(self, only_browser: bool = False) -> None:
        self.only_browser = only_browser
        self.ended: dict[str, str] = {}
        self.elsewhere: list[str] = []
        """Tests that need a whole estate: `make test` runs them."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not self.only_browser:
            return
        browsing = [item for item in items if BROWSER & set(getattr(item, "fixturenames", ()))]
        here = [item for item in browsing if not ESTATE & set(getattr(item, "fixturenames", ()))]
        self.elsewhere = [item.nodeid for item in browsing if item not in here]
        items[:] = here

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.ended.get(report.nodeid, "passed")
        self.ended[report.nodeid] = report.outcome if before == "passed" else before


def run(*what: str, only_browser: bool = False) -> Outcomes:
    """Run tests in this process."""
    outcomes = Outcomes(only_browser)
    ENDS.append(int(pytest.main([*QUIET, *what], plugins=[outcomes])))
    return outcomes


def facts(folder: Path, pattern: str) -> list[Any]:
    """Return the facts that tests have left."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{pattern}.json"))]


def page(title: str, said: str, test: str, lines: list[str]) -> str:
    """Return a report: its heading, its subject, and how to create it again."""
    again = f"Again, by itself: `.venv/bin/python -m pytest {test}`"
    return "\n".join([f"# {title}", GENERATED, "", textwrap.fill(said, 140), "", again, "", *lines]) + "\n"


def words_of(test: str) -> str:
    """Return a test's name as the promise that it tests."""
    return test.removeprefix("test_").replace("_", " ")


def accessibility(folder: Path) -> str:
    test = "-m nightly tests/browser/console/test_every_look.py"
    run("-m", "nightly", "tests/browser/console/test_every_look.py")
    found = facts(folder, "axe-*")
    looked = [look for each in found for look in each["looked"]]
    by_page: dict[str, dict[str, str]] = defaultdict(dict)
    for address, look, violations, passed in looked:
        by_page[address][look] = f"{violations} of {violations + passed}"
    looks = list(next(iter(by_page.values())))
    violations = sum(each[2] for each in looked)
    said = (
        f"axe {found[0]['version']} in Chromium, rules {', '.join(found[0]['rules'])}: {len(by_page)} pages, each "
        f"wide (1280 pixels) and narrow (390), light and dark. **{violations} violations** in "
        f"{len(looked)} looks. A cell has the violations, of so many rules that were applied."
    )
    rows = [f"| `{name}` | {' | '.join(each[look] for look in looks)} |" for name, each in by_page.items()]
    return page("Accessibility", said, test, [f"| page | {' | '.join(looks)} |", "|---" * 5 + "|", *rows])


def browser_tests(_: Path) -> str:
    outcomes = run("-m", "not nightly", "tests/browser", "tests/project/docs", only_browser=True)
    by_file: dict[str, list[str]] = defaultdict(list)
    for test, outcome in outcomes.ended.items():
        file, _, name = test.partition("::")
        by_file[file].append(f"- {words_of(name)}: {outcome}")
    for test in outcomes.elsewhere:
        file, _, name = test.partition("::")
        by_file[file].append(f"- {words_of(name)}: on the estate, by `make test`")
    passed = sum(outcome == "passed" for outcome in outcomes.ended.values())
    said = (
        f"{len(outcomes.ended)} tests in real Chromium in front of a real control plane: **{passed} passed**. "
        f"{len(outcomes.elsewhere)} more need an estate of real clusters. Each name is the promise that is tested."
    )
    lines = [line for file, tests in sorted(by_file.items()) for line in (f"## `{file}`", "", *tests, "")]
    return page("Tests in the browser", said, "tests/browser", lines[:-1])


def rest(folder: Path) -> str:
    test = "tests/postgres/api/test_rest_schemathesis.py"
    run(test)
    found = facts(folder, "schemathesis-*")
    modes = [path.stem.partition("-")[2] for path in sorted(folder.glob("schemathesis-*.json"))]
    operations = sorted(
        {label for each in found for label in each["asked"]}, key=lambda label: label.split()[::-1]
    )
    sent = sum(sum(each["asked"].values()) for each in found)
    broken = [line for each in found for line in each["broken"]]
    said = (
        f"schemathesis {found[0]['version']} makes requests from the OpenAPI, well formed (positive) and broken "
        f"on purpose (negative): {len(operations)} operations, {sent:,} requests. **{len(broken)} operations** "
        "answered otherwise than documented: with a crash, a status or a body that the schema does not have, "
        "or without a token."
    )
    rows = []
    for label in operations:
        counts = " | ".join(str(each["asked"].get(label, "–")) for each in found)
        rows.append(f"| `{label.replace('/api/v1', '')}` | {counts} |")
    lines = [f"| operation | {' | '.join(modes)} |", "|---" * (1 + len(modes)) + "|", *rows]
    return page("REST against its own schema", said, test, [*(f"- {each}" for each in broken), *lines])


def weight(folder: Path) -> str:
    test = "tests/browser/console/test_weight.py"
    run(test)
    found = facts(folder, "weight-*")
    most = found[0]["most"]
    said = (
        "All bytes that Chromium is sent on a first visit, with an empty cache: headers, the page, styles, "
        f"scripts, the typeface. A test holds each below {most:,} bytes."
    )
    lines: list[str] = []
    for each in found:
        whole = sum(size for _, size in each["files"])
        rows = [f"| `{path}` | {size:,} |" for path, size in each["files"]]
        lines += ["", f"## `{each['path']}`: {whole:,} bytes", "", "| file | bytes |", "|---|---|", *rows]
    return page("What a first visit weighs", said, test, lines[1:])


def clicks(folder: Path) -> str:
    test = "-m nightly tests/browser/console/test_ten_tasks.py"
    run("-m", "nightly", "tests/browser/console/test_ten_tasks.py")
    said = (
        "What an operator does most, by mouse in real Chromium, on an estate of five real clusters. Each task "
        "begins on the first page, and ends when it is done on the clusters. A click on anything counts, and so "
        "does a choice in a list; typing does not, but a field that has to be clicked first does."
    )
    found = facts(folder, "clicks-*")
    rows = [f"| {each['task']} | {each['way']} | {each['clicks']} | {each['aim']} |" for each in found]
    return page("Clicks", said, test, ["| task | way | clicks | at most |", "|---|---|---|---|", *rows])


WRITTEN: dict[str, Callable[[Path], str]] = {
    "accessibility": accessibility,
    "browser-tests": browser_tests,
    "clicks": clicks,
    "rest": rest,
    "weight": weight,
}


def main(names: list[str]) -> int:
    """Write the reports of these names; all if none is given."""
    REPORTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = folder
        for name in names or WRITTEN:
            (REPORTS / f"{name}.md").write_text(WRITTEN[name](Path(folder)))
    return int(any(ENDS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
