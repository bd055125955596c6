"""Test interface of the independent count, which runs in the router's network namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backend.parent_exit import exit_with_parent
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.kafka.zone_networks.namespaces import ROUTER, Namespaces
from tests.support.kafka.three_brokers import Brokers
from tests.support.zones.nodes import Router

KAFKA = ("client", "proxy")
"""Planes whose requests are counted by kind: brokers' client listeners, and proxies'."""


@dataclass(frozen=True)
class Traffic:
    """Traffic by (from zone, to zone, plane); `kinds` adds the kind of requests as a fourth key."""

    sent: Counter[tuple[str, ...]]
    kinds: Counter[tuple[str, ...]]
    found: Counter[tuple[str, ...]]
    """Number of stream pieces with a canary, by (canary, from zone, to zone, plane)."""

    def since(self, before: Traffic) -> Traffic:
        return Traffic(self.sent - before.sent, self.kinds - before.kinds, self.found - before.found)

    def of_plane(self, *planes: str) -> int:
        """Return the payload bytes."""
        return sum(size for (_, _, plane), size in self.sent.items() if plane in planes)

    def of_kind(self, *kinds: str) -> int:
        """Return the payload bytes of all planes."""
        return sum(size for (_, _, _, kind), size in self.kinds.items() if kind in kinds)

    def planes_with(self, canary: str) -> set[str]:
        return {plane for found, _, _, plane in self.found if found == canary}

    def table(self) -> str:
        """Return a Markdown table with a row for each plane and kind, and a column for each direction."""
        ways = sorted({key[:2] for key in self.sent})
        rows = {key[2]: self.sent for key in self.sent} | {key[2:]: self.kinds for key in self.kinds}
        lines = [f"| bytes | {' | '.join(f'{start} to {end}' for start, end in ways)} | all |"]
        lines.append("|---" + "|---:" * (len(ways) + 1) + "|")
        for row in sorted(rows, key=lambda row: (row,) if isinstance(row, str) else row):
            what = (row,) if isinstance(row, str) else row
            cells = [rows[row][*way, *what] for way in ways]
            lines.append(f"| {': '.join(what)} | {' | '.join(f'{n:,}' for n in [*cells, sum(cells)])} |")
        return "\n".join(lines)


class Counting:
    """Counting process; it must start before any traffic."""

    def __init__(self, namespaces: Namespaces, brokers: Brokers, routers: Iterable[Router]) -> None:
        plan = {
            "zones": {namespaces.host(zone): zone for zone in namespaces.zones},
            "planes": _planes(brokers, routers),
            "kafka": KAFKA,
        }
        with namespaces.within(ROUTER):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.zone_networks.capture", json.dumps(plan)],
                cwd=PROJECT_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=exit_with_parent,
            )
        assert self._line() == "counting"

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, f"the count has ended: {self._process.wait(10)}"
        return line

    def _asked(self, words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(words, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def watch(self, canary: str) -> None:
        """Search for a canary from now on."""
        self._asked(f"watch {canary}")

    def traffic(self) -> Traffic:
        """Return all traffic until now, once the links' own counters confirm that nothing was missed."""

        def whole() -> dict[str, Any] | None:
            told = self._asked("report")
            assert told["dropped"] == 0
            is_whole = told["still"] and told["early"] == 0 and told["counters"] == told["seen"]
            return told if is_whole else None

        told = eventually(whole, "a moment at which nothing is under way", every_seconds=0.02)
        counters = (
            Counter({tuple(key): size for *key, size in told[what]}) for what in ("sent", "kinds", "found")
        )
        return Traffic(*counters)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _planes(brokers: Brokers, routers: Iterable[Router]) -> dict[str, str]:
    """Return the listeners by address and port."""
    found = {}
    for ports in brokers.ports:
        found |= {
            f"{ports.host}:{ports.client}": "client",
            f"{ports.host}:{ports.internal}": "replication",
            f"{ports.host}:{ports.controller}": "controller",
        }
    for router in routers:
        for zone, node in router.nodes.items():
            found |= {f"{node.site.host}:{port}": "proxy" for port in (node.bootstrap, *node.brokers.values())}
            found[f"{node.site.host}:{router.main_ports[zone]}"] = "route"
    return found
