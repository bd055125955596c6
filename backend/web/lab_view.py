"""What the page of a drill shows at one of its moments: lanes, store, what is under way, the story, ways on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from backend.domain.words import counted
from backend.replication_lab.drills import LARGEST_SEED, Drill, listed
from backend.replication_lab.history import IN_WORDS, Invariant
from backend.replication_lab.messages import producer_name
from backend.replication_lab.rules import MODES
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.story import Moment
from backend.web.lab_drawing import Bar, Window, bar_of, lacks, promised, window_of
from backend.web.lab_wires import Wires, wires_of
from backend.web.same_change import curl

DRILLS = "/drills"
REPLICATION = f"{DRILLS}/replication"
SHORTLY: Mapping[str, str] = {
    Invariant.COMMITTED_LOST: "a committed record is lost",
    Invariant.LOGS_DIFFER: "logs differ below the HW",
    Invariant.UNCOMMITTED_READ: "an uncommitted record is read",
    Invariant.BELOW_MIN_ISR: "acknowledged below min ISR",
    Invariant.WRITTEN_TWICE: "a record is written twice",
    Invariant.OUT_OF_ORDER: "a producer's records lose their order",
    Invariant.TWO_LEADERS: "two leaders commit",
    Invariant.NOT_READABLE: "acknowledged, but not readable",
    Invariant.UNANSWERED: "a request is never answered",
    Invariant.FORGOTTEN: "a replica is forgotten",
    Invariant.HW_FELL: "the HW falls",
    Invariant.NEVER_SETTLES: "it never settles",
}
"""What it comes to when an invariant does not hold."""
HOLDS = "holds"
MODES_SAID: Mapping[str, str] = {
    "faithful": "the documents as they are written",
    "fixed": "what Kafka does since: all mends at once",
    "kip-101": "all mends, but fetches are not fenced and the epoch is asked for once",
    "kip-279": "all mends, but fetches are not fenced",
}


def sentence(text: str) -> str:
    """The text as a sentence begins; names of settings stay as they are."""
    return text if "=" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def address(scenario: str, mode: str, seed: int, step: int | None = None) -> str:
    """Where a drill is played, at a step of its story."""
    asked: dict[str, Any] = {"mode": mode, "seed": seed}
    if step is not None:
        asked["step"] = step
    return f"{REPLICATION}/{scenario}?{urlencode(asked)}"


@dataclass(frozen=True)
class Expected:
    """What a scenario is expected to give in a mode."""

    holds: bool
    words: str
    address: str


@dataclass(frozen=True)
class Listed:
    """A scenario in the list; `expected` by mode."""

    name: str
    title: str
    document: str
    expected: Mapping[str, Expected]


def scenarios_listed() -> list[Listed]:
    """All there are; nothing is played for this."""
    return [_listed(each) for each in SCENARIOS.values()]


def modes_listed(shown: Sequence[Listed]) -> list[str]:
    """The modes of which something is expected."""
    return [mode for mode in MODES if any(mode in each.expected for each in shown)]


def _listed(scenario: Scenario) -> Listed:
    found = listed(scenario)
    expected = {
        mode: Expected(given == HOLDS, SHORTLY.get(given, HOLDS), address(scenario.name, mode, 1))
        for mode, given in found["expected"].items()
    }
    return Listed(scenario.name, scenario.title, scenario.document, expected)


@dataclass(frozen=True)
class Lane:
    """A broker. `state`: alive, paused or dead; `facts`: what it keeps, as names and values."""

    id: int
    role: str
    leads: bool
    state: str
    state_said: str
    glyph: str
    about: str
    doubt: str
    bar: Bar
    facts: Sequence[tuple[str, str]]


_STATES = {"alive": ("alive", "running"), "paused": ("stands still", "paused"), "dead": ("dead", "offline")}


@dataclass(frozen=True)
class PlayerView:
    """A drill at one of its moments."""

    drill: Drill
    at: int
    """Which moment: 0 is the beginning."""

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.drill.scenario]

    @property
    def last(self) -> int:
        return len(self.drill.moments) - 1

    @property
    def moment(self) -> Moment:
        return self.drill.moments[self.at]

    @property
    def frame(self) -> Mapping[str, Any]:
        return self.moment.frame

    @property
    def is_violated(self) -> bool:
        return self.drill.violated is not None

    @property
    def is_at_violation(self) -> bool:
        """Whether the invariant is violated at this moment."""
        return self.is_violated and self.at == self.last

    @property
    def outcome(self) -> str:
        """In a few words."""
        violated = self.drill.violated
        return "All invariants hold" if violated is None else sentence(SHORTLY[violated])

    @property
    def invariant(self) -> str:
        """The one that is violated, in words."""
        return "" if self.drill.violated is None else IN_WORDS[self.drill.violated]

    @property
    def told(self) -> str:
        """How much of the run is told."""
        whole = f"{self.drill.steps_taken:,} steps were played"
        if self.drill.violated is None:
            return f"{whole}; the {self.last:,} that matter are told"
        if self.drill.violated is Invariant.NEVER_SETTLES:
            return f"{whole}; {self.last:,} are told"
        begins = f"; the story begins after {self.drill.begins_after:,}" if self.drill.begins_after else ""
        return f"{whole}{begins}; the fewest that lead from there to the violation are {self.last:,}"

    # --- ways on

    def go(self, at: int) -> str | None:
        """The address of another moment; None of this one."""
        return None if at == self.at else self.address_of(at)

    def address_of(self, at: int) -> str:
        """Of a moment."""
        return address(self.drill.scenario, self.drill.mode, self.drill.seed, at)

    @property
    def ways(self) -> Sequence[tuple[str, str, str | None]]:
        """Names, labels and addresses of the steps that buttons take."""
        end = "Violated" if self.is_violated else "End"
        return (
            ("first", "First", self.go(0)),
            ("previous", "Previous", self.go(max(self.at - 1, 0))),
            ("next", "Next", self.go(min(self.at + 1, self.last))),
            ("last", end, self.go(self.last)),
        )

    @property
    def modes(self) -> Sequence[tuple[str, str, str, bool]]:
        """Each mode's name, what it is, the same drill in it, whether it is this one."""
        drill = self.drill
        return [
            (mode, MODES_SAID.get(mode, mode), address(drill.scenario, mode, drill.seed), mode == drill.mode)
            for mode in MODES
        ]

    @property
    def another_seed(self) -> str:
        """The same drill with the next seed."""
        drill = self.drill
        return address(drill.scenario, drill.mode, 0 if drill.seed == LARGEST_SEED else drill.seed + 1)

    @property
    def command(self) -> str:
        """The same, by the command line."""
        drill = self.drill
        return f"treeline drill replication --scenario {drill.scenario} --mode {drill.mode} --seed {drill.seed}"

    @property
    def call(self) -> str:
        """The same, by the API."""
        asked = urlencode({"mode": self.drill.mode, "seed": self.drill.seed, "frames": "true"})
        return curl("GET", f"/api/v1{REPLICATION}/{self.drill.scenario}?{asked}")

    # --- the picture

    @cached_property
    def window(self) -> Window:
        return window_of(self.frame)

    @cached_property
    def wires(self) -> Wires:
        return wires_of(self.frame)

    @property
    def producers(self) -> str:
        """Who hands records in."""
        names = [producer_name(each) for each in range(self.scenario.configuration.producers)]
        return f"Producer {names[0]}" if len(names) == 1 else f"Producers {', '.join(names)}"

    @property
    def store(self) -> Sequence[tuple[str, str]]:
        """What the coordination store says."""
        found = self.frame["store"]
        said = [("leader", str(found["leader"] or "none"))]
        if found["leader_epoch"] is not None:
            said.append(("epoch", str(found["leader_epoch"])))
        said.append(("ISR", _ids(found["isr"])))
        if found["elr"]:
            said.append(("ELR", _ids(found["elr"])))
        said.append(("AR", _ids(found["replicas"])))
        if found["reassigned"]:
            said.append(("RAR", _ids(found["reassigned"])))
        said.append(("sessions", _ids(found["registered"])))
        return said

    @property
    def lanes(self) -> Sequence[Lane]:
        """The brokers."""
        return [self._lane(each) for each in self.frame["brokers"]]

    def _lane(self, broker: Mapping[str, Any]) -> Lane:
        state = "dead" if not broker["alive"] else "paused" if broker["paused"] else "alive"
        said, glyph = _STATES[state]
        leads, named = broker["role"] in ("leader", "becoming leader"), self.frame["store"]["leader"]
        about = [f"epoch {broker['epoch']}"] if broker["epoch"] and broker["alive"] else []
        if broker["follows"]:
            about.append(f"of broker {broker['follows']}")
        flushed = counted(min(broker["flushed"], broker["leo"]), "record")
        facts = [("on disk", f"{flushed}, HW {broker['checkpoint']}")]
        if leads:
            waiting = ", ".join(broker["waiting"]) or "empty"
            facts = [("ISR", _ids(broker["isr"])), ("CUR", _ids(broker["cur"])), ("commitQ", waiting), *facts]
        return Lane(
            id=broker["id"],
            role="" if broker["role"] == "none" else broker["role"],
            leads=leads,
            state=state,
            state_said=said,
            glyph=glyph,
            about=", ".join(about),
            doubt=f"the store names {named or 'nobody'}" if leads and named != broker["id"] else "",
            bar=bar_of(broker, self.frame["committed"], self.window),
            facts=facts,
        )

    @property
    def committed(self) -> Bar:
        """What readers have been promised."""
        return promised(self.frame["committed"], self.lost, self.window)

    @property
    def lost(self) -> frozenset[int]:
        """Offsets of committed records that are lost now, against what was promised: the leader lacks them."""
        if not self.is_at_violation or self.drill.violated is not Invariant.COMMITTED_LOST:
            return frozenset()
        leader = self.frame["store"]["leader"]
        found = next((each for each in self.frame["brokers"] if each["id"] == leader), None)
        return frozenset() if found is None else lacks(found, self.frame["committed"])

    @property
    def lost_said(self) -> str:
        """The same in words."""
        names = [self.frame["committed"][at] for at in sorted(self.lost)]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} lost" if names else ""

    @property
    def expected_losses(self) -> str:
        """Records that were lost while no in-sync replica lived: nothing was promised of that."""
        return ", ".join(f"{each['record']} (offset {each['offset']})" for each in self.frame["expected_losses"])


def _ids(ids: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, ids))}}}"
