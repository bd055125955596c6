"""Subjects of the player, a scenario or a user's own faults, with their addresses, commands and API calls."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from backend.domain.base.words import counted
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.web.forms.same_change import curl
from backend.web.lab.lab_faults import OwnFaults

DRILLS = "/drills"
REPLICATION = f"{DRILLS}/replication"
OWN = f"{DRILLS}/schedule"


class Subject(Protocol):
    """Subject of a player, without mode and seed."""

    @property
    def name(self) -> str:
        """Return the name in the page's breadcrumb."""

    @property
    def title(self) -> str:
        """Return the page's heading."""

    @property
    def about(self) -> str:
        """Return the description."""

    @property
    def path(self) -> str:
        """Return the page's path."""

    @property
    def kept(self) -> Mapping[str, str]:
        """Return the query parameters besides mode, seed and step."""

    @property
    def producers(self) -> int:
        """Return the number of producers."""

    def command(self, mode: str, seed: int) -> str:
        """Return the equivalent command."""

    def call(self, mode: str, seed: int) -> str:
        """Return the equivalent API call."""


def address_of(subject: Subject, mode: str, seed: int, step: int | None = None) -> str:
    """Return the address of a run, at a step of its story."""
    asked: dict[str, Any] = {**subject.kept, "mode": mode, "seed": seed}
    if step is not None:
        asked["step"] = step
    return f"{subject.path}?{urlencode(asked)}"


@dataclass(frozen=True)
class OfScenario:
    """A scenario as the player's subject."""

    scenario: Scenario

    @property
    def name(self) -> str:
        return self.scenario.name

    @property
    def title(self) -> str:
        return self.scenario.title

    @property
    def about(self) -> str:
        return self.scenario.document

    @property
    def path(self) -> str:
        return f"{REPLICATION}/{self.scenario.name}"

    @property
    def kept(self) -> Mapping[str, str]:
        return {}

    @property
    def producers(self) -> int:
        return self.scenario.configuration.producers

    def command(self, mode: str, seed: int) -> str:
        return f"treeline drill replication --scenario {self.scenario.name} --mode {mode} --seed {seed}"

    def call(self, mode: str, seed: int) -> str:
        asked = urlencode({"mode": mode, "seed": seed, "frames": "true"})
        return curl("GET", f"/api/v1{REPLICATION}/{self.scenario.name}?{asked}")


def scenario_address(name: str, mode: str, seed: int, step: int | None = None) -> str:
    """Return the address of a scenario's run."""
    return address_of(OfScenario(SCENARIOS[name]), mode, seed, step)


@dataclass(frozen=True)
class OfFaults:
    """A user's own, valid faults as the player's subject."""

    asked: OwnFaults

    @property
    def name(self) -> str:
        return "Your own faults"

    @property
    def title(self) -> str:
        return "; ".join(self._sentences) if len(self._sentences) <= _MOST_IN_TITLE else self._counted

    @property
    def about(self) -> str:
        asked = self.asked
        acks = "acks=all" if asked.document["acks_all"] else "acks=1"
        return (
            f"{counted(int(asked.document['brokers']), 'broker')}, replication factor "
            f"{asked.document['replication_factor']}, min.insync.replicas {asked.document['min_isr']}, "
            f"{counted(self.producers, 'producer')} with {acks}"
        )

    @property
    def _counted(self) -> str:
        return counted(len(self._sentences), "fault")

    @property
    def _sentences(self) -> Sequence[str]:
        return [_describe_fault(each) for each in self.asked.document["faults"]]

    @property
    def path(self) -> str:
        return OWN

    @property
    def kept(self) -> Mapping[str, str]:
        return self.asked.kept

    @property
    def producers(self) -> int:
        return int(self.asked.document["producers"])

    def command(self, mode: str, seed: int) -> str:
        document = shlex.quote(self.asked.yaml)
        return f"treeline drill replication --schedule - --mode {mode} --seed {seed} <<< {document}"

    def call(self, mode: str, seed: int) -> str:
        asked = urlencode({"mode": mode, "seed": seed, "frames": "true"})
        return curl("POST", f"/api/v1{REPLICATION}?{asked}", self.asked.document)


_MOST_IN_TITLE = 3
_FAULT_SENTENCES = {
    "crash": "broker {broker} crashes",
    "power_loss": "broker {broker} loses power",
    "pause": "broker {broker} is paused",
    "cut": "the connection between broker {broker} and {other} is cut",
    "slow": "broker {broker} is slow at fetching",
    "slow_disk": "the disk of broker {broker} is slow",
    "session_expiry": "the session of broker {broker} expires",
}


def _describe_fault(fault: Mapping[str, Any]) -> str:
    other = f"broker {fault['other']}" if fault.get("other") else "the store"
    what = _FAULT_SENTENCES[fault["fault"]].format(broker=fault["broker"], other=other)
    lasts = f" for {fault['for_ms'] / 1000:g} s" if fault.get("for_ms") else ""
    return f"{what} at {fault['at_ms'] / 1000:g} s{lasts}"
