"""View of a drill at one moment: lanes, store, messages under way, story, navigation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backend.domain.base.words import counted
from backend.replication_lab.model.history import IN_WORDS, Invariant
from backend.replication_lab.model.messages import producer_name
from backend.replication_lab.model.rules import MODES
from backend.replication_lab.runs.drills import LARGEST_SEED, NOTHING_PROMISED, UNEXPLAINED_WAIT, Drill, summary
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.stories.story import Moment
from backend.web.lab.lab_drawing import (
    Bar,
    Window,
    bar_of,
    committed_bar,
    committed_of,
    missing_offsets,
    window_of,
)
from backend.web.lab.lab_subject import Subject, address_of, scenario_address
from backend.web.lab.lab_wires import Wires, wires_of

CONSEQUENCES: Mapping[str, str] = {
    Invariant.COMMITTED_LOST: "a committed record is lost",
    Invariant.LOGS_DIFFER: "logs differ below the HW",
    Invariant.UNCOMMITTED_READ: "an uncommitted record is read",
    Invariant.BELOW_MIN_ISR: "acknowledged below min.insync.replicas",
    Invariant.WRITTEN_TWICE: "a record is written twice",
    Invariant.OUT_OF_ORDER: "a producer's records lose their order",
    Invariant.TWO_LEADERS: "two leaders commit",
    Invariant.NOT_READABLE: "acknowledged, but not readable",
    Invariant.UNANSWERED: "a request is never answered",
    Invariant.FORGOTTEN: "a replica is forgotten",
    Invariant.HW_FELL: "the HW falls",
    Invariant.NEVER_SETTLES: "the partition never recovers",
}
"""Consequence of each violated invariant."""
HOLDS = "holds"
MODE_DESCRIPTIONS: Mapping[str, str] = {
    "faithful": "the documents as written",
    "fixed": "Kafka's protocol today: all fixes",
    "kip-101": "all fixes, except that fetches are not fenced and the epoch is requested once",
    "kip-279": "all fixes, except that fetches are not fenced",
}


def sentence(text: str) -> str:
    """Capitalize a sentence's first letter; names of settings stay as they are."""
    first = text.partition(" ")[0]
    return text if "=" in first or "_" in first else text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Expected:
    """Expected result of a scenario in a mode."""

    holds: bool
    words: str
    address: str


@dataclass(frozen=True)
class Listed:
    """A scenario in the list; `expected` maps modes to results."""

    name: str
    title: str
    document: str
    expected: Mapping[str, Expected]


def list_scenarios() -> list[Listed]:
    """Return all scenarios; none is played for this."""
    return [_listed(each) for each in SCENARIOS.values()]


def list_modes(shown: Sequence[Listed]) -> list[str]:
    """Return the modes for which a result is expected."""
    return [mode for mode in MODES if any(mode in each.expected for each in shown)]


def _listed(scenario: Scenario) -> Listed:
    found = summary(scenario)
    expected = {
        mode: Expected(given == HOLDS, CONSEQUENCES.get(given, HOLDS), scenario_address(scenario.name, mode, 1))
        for mode, given in found["expected"].items()
    }
    return Listed(scenario.name, scenario.title, scenario.document, expected)


@dataclass(frozen=True)
class Lane:
    """A broker's lane. `state` is alive, paused or dead; `facts` are its stored values, as names and values."""

    id: int
    role: str
    leads: bool
    state: str
    state_label: str
    glyph: str
    about: str
    doubt: str
    bar: Bar
    facts: Sequence[tuple[str, str]]


_STATES = {"alive": ("alive", "running"), "paused": ("paused", "paused"), "dead": ("dead", "offline")}


@dataclass(frozen=True)
class PlayerView:
    """A drill at one of its moments."""

    subject: Subject
    drill: Drill
    at: int
    """Index of the moment: 0 is the beginning."""

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
        """Tell whether the invariant is violated at this moment."""
        return self.is_violated and self.at == self.last

    @property
    def outcome(self) -> str:
        """Return the result in a few words."""
        violated = self.drill.violated
        if violated is not None:
            return sentence(CONSEQUENCES[violated])
        return "All invariants hold" if self.drill.is_checked else "Recovered; records have no guarantees"

    @property
    def tone(self) -> str:
        """Return the tone of the result."""
        if self.is_violated:
            return "bad"
        drill = self.drill
        return "good" if drill.is_checked and not drill.acknowledged_losses else "warn"

    @property
    def notes(self) -> Sequence[str]:
        """Return further results of the run, as sentences without their full stop."""
        drill = self.drill
        notes = []
        if not drill.is_checked:
            notes.append(NOTHING_PROMISED)
        if not drill.waits_have_reasons:
            notes.append(UNEXPLAINED_WAIT)
        if drill.acknowledged_losses:
            names, many = ", ".join(drill.acknowledged_losses), len(drill.acknowledged_losses)
            notes.append(f"{counted(many, 'acknowledged record')} lost: {names}")
        if drill.longest_gap_ms is not None:
            notes.append(f"Longest time without an acknowledgement: {drill.longest_gap_ms:,} ms, simulated")
        return notes

    @property
    def invariant(self) -> str:
        """Return the description of the violated invariant."""
        return "" if self.drill.violated is None else IN_WORDS[self.drill.violated]

    @property
    def coverage(self) -> str:
        """Return which part of the run the story shows."""
        whole = f"{self.drill.steps_taken:,} steps were played"
        if self.drill.violated is None:
            return f"{whole}; the story shows the {self.last:,} that matter"
        if self.drill.violated is Invariant.NEVER_SETTLES:
            return f"{whole}; the story shows {self.last:,}"
        if not self.drill.is_fewest:
            return f"{whole}; shrinking the story to its fewest steps would take too long"
        begins = f"; the story begins after {self.drill.begins_after:,}" if self.drill.begins_after else ""
        return f"{whole}{begins}; at least {self.last:,} lead from there to the violation"

    # --- navigation

    def go(self, at: int) -> str | None:
        """Return the address of another moment; None for this one."""
        return None if at == self.at else self.address_of(at)

    def address_of(self, at: int) -> str:
        """Return the address of a moment."""
        return address_of(self.subject, self.drill.mode, self.drill.seed, at)

    @property
    def ways(self) -> Sequence[tuple[str, str, str | None]]:
        """Return names, labels and addresses of the navigation buttons."""
        end = "Violated" if self.is_violated else "End"
        return (
            ("first", "First", self.go(0)),
            ("previous", "Previous", self.go(max(self.at - 1, 0))),
            ("next", "Next", self.go(min(self.at + 1, self.last))),
            ("last", end, self.go(self.last)),
        )

    @property
    def modes(self) -> Sequence[tuple[str, str, str, bool]]:
        """Return each mode's name, description and address, and whether it is the current one."""
        drill = self.drill
        return [
            (
                mode,
                MODE_DESCRIPTIONS.get(mode, mode),
                address_of(self.subject, mode, drill.seed),
                mode == drill.mode,
            )
            for mode in MODES
        ]

    @property
    def another_seed(self) -> str:
        """Return the address of the same drill with the next seed."""
        drill = self.drill
        return address_of(self.subject, drill.mode, 0 if drill.seed == LARGEST_SEED else drill.seed + 1)

    @property
    def command(self) -> str:
        """Return the equivalent command."""
        return self.subject.command(self.drill.mode, self.drill.seed)

    @property
    def call(self) -> str:
        """Return the equivalent API call."""
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
        """Return the label of the producers' lane."""
        names = [producer_name(each) for each in range(self.subject.producers)]
        return f"Producer {names[0]}" if len(names) == 1 else f"Producers {', '.join(names)}"

    @property
    def store(self) -> Sequence[tuple[str, str]]:
        """Return the contents of the coordination store."""
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
        """Return the brokers' lanes."""
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
            state_label=said,
            glyph=glyph,
            about=", ".join(about),
            doubt=f"the store names {named or 'no leader'}" if leads and named != broker["id"] else "",
            bar=bar_of(broker, committed_of(self.frame), self.window),
            facts=facts,
        )

    @property
    def committed(self) -> Bar:
        """Return the bar of committed records."""
        return committed_bar(committed_of(self.frame), self.lost, self.window)

    @property
    def lost(self) -> frozenset[int]:
        """Return the offsets of committed records that the leader lacks at the violation."""
        if not self.is_at_violation or self.drill.violated is not Invariant.COMMITTED_LOST:
            return frozenset()
        leader = self.frame["store"]["leader"]
        found = next((each for each in self.frame["brokers"] if each["id"] == leader), None)
        return frozenset() if found is None else missing_offsets(found, committed_of(self.frame))

    @property
    def lost_text(self) -> str:
        """Describe the lost records."""
        committed = committed_of(self.frame)
        names = [committed[at] for at in sorted(self.lost)]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} lost" if names else ""

    @property
    def expected_losses(self) -> str:
        """Return the records that were lost while no in-sync replica was alive, for which nothing is promised."""
        return ", ".join(f"{each['record']} (offset {each['offset']})" for each in self.frame["expected_losses"])


def _ids(ids: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, ids))}}}"
