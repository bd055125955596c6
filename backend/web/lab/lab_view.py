"""What the page of a drill shows at one of its moments: lanes, store, what is under way, the story, ways on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backend.domain.base.words import counted
from backend.replication_lab.drills import LARGEST_SEED, NOTHING_PROMISED, UNEXPLAINED_WAIT, Drill, summary
from backend.replication_lab.history import IN_WORDS, Invariant
from backend.replication_lab.messages import producer_name
from backend.replication_lab.rules import MODES
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.story import Moment
from backend.web.lab.lab_drawing import Bar, Window, bar_of, committed_of, lacks, promised, window_of
from backend.web.lab.lab_subject import Subject, address_of, scenario_address
from backend.web.lab.lab_wires import Wires, wires_of

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
    first = text.partition(" ")[0]
    return text if "=" in first or "_" in first else text[:1].upper() + text[1:]


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
    found = summary(scenario)
    expected = {
        mode: Expected(given == HOLDS, SHORTLY.get(given, HOLDS), scenario_address(scenario.name, mode, 1))
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

    subject: Subject
    drill: Drill
    at: int
    """Which moment: 0 is the beginning."""

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
        if violated is not None:
            return sentence(SHORTLY[violated])
        return "All invariants hold" if self.drill.is_checked else "All settles; of records nothing is promised"

    @property
    def tone(self) -> str:
        """Whether it came out well."""
        if self.is_violated:
            return "bad"
        drill = self.drill
        return "good" if drill.is_checked and not drill.acknowledged_losses else "warn"

    @property
    def notes(self) -> Sequence[str]:
        """What else the run came to, in sentences without their full stop."""
        drill = self.drill
        notes = []
        if not drill.is_checked:
            notes.append(NOTHING_PROMISED)
        if not drill.waits_have_reasons:
            notes.append(UNEXPLAINED_WAIT)
        if drill.acknowledged_losses:
            names, many = ", ".join(drill.acknowledged_losses), len(drill.acknowledged_losses)
            notes.append(f"{counted(many, 'record')} that producers were told to be written are gone: {names}")
        if drill.longest_gap_ms is not None:
            notes.append(f"Longest time without an acknowledgement: {drill.longest_gap_ms:,} ms, simulated")
        return notes

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
        if not self.drill.is_fewest:
            return f"{whole}; the story is not shrunk to its fewest steps, which would take too long"
        begins = f"; the story begins after {self.drill.begins_after:,}" if self.drill.begins_after else ""
        return f"{whole}{begins}; the fewest that lead from there to the violation are {self.last:,}"

    # --- ways on

    def go(self, at: int) -> str | None:
        """The address of another moment; None of this one."""
        return None if at == self.at else self.address_of(at)

    def address_of(self, at: int) -> str:
        """Of a moment."""
        return address_of(self.subject, self.drill.mode, self.drill.seed, at)

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
            (mode, MODES_SAID.get(mode, mode), address_of(self.subject, mode, drill.seed), mode == drill.mode)
            for mode in MODES
        ]

    @property
    def another_seed(self) -> str:
        """The same drill with the next seed."""
        drill = self.drill
        return address_of(self.subject, drill.mode, 0 if drill.seed == LARGEST_SEED else drill.seed + 1)

    @property
    def command(self) -> str:
        """The same, by the command line."""
        return self.subject.command(self.drill.mode, self.drill.seed)

    @property
    def call(self) -> str:
        """The same, by the API."""
        return self.subject.call(self.drill.mode, self.drill.seed)

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
        names = [producer_name(each) for each in range(self.subject.producers)]
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
            bar=bar_of(broker, committed_of(self.frame), self.window),
            facts=facts,
        )

    @property
    def committed(self) -> Bar:
        """What readers have been promised."""
        return promised(committed_of(self.frame), self.lost, self.window)

    @property
    def lost(self) -> frozenset[int]:
        """Offsets of committed records that are lost now, against what was promised: the leader lacks them."""
        if not self.is_at_violation or self.drill.violated is not Invariant.COMMITTED_LOST:
            return frozenset()
        leader = self.frame["store"]["leader"]
        found = next((each for each in self.frame["brokers"] if each["id"] == leader), None)
        return frozenset() if found is None else lacks(found, committed_of(self.frame))

    @property
    def lost_said(self) -> str:
        """The same in words."""
        committed = committed_of(self.frame)
        names = [committed[at] for at in sorted(self.lost)]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} lost" if names else ""

    @property
    def expected_losses(self) -> str:
        """Records that were lost while no in-sync replica lived: nothing was promised of that."""
        return ", ".join(f"{each['record']} (offset {each['offset']})" for each in self.frame["expected_losses"])


def _ids(ids: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, ids))}}}"
