"""Mutants of the fixed protocol: a fix left out, or one line of a function changed."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import pytest

from backend.replication_lab.model import (
    answers,
    committing,
    fetching,
    following,
    isr,
    leading,
    producing,
    startup,
)
from backend.replication_lab.model.rules import FIXED, NewLeaderHw, Rules, Truncation
from backend.replication_lab.model.state import Broker


@dataclass(frozen=True)
class Line:
    """A line of a function, and its replacement in the mutant."""

    function: Callable[..., Any]
    line: str
    mutated: str

    def code(self) -> CodeType:
        """Compile the function with the line changed.

        Raises:
            ValueError: the line does not occur exactly once.
        """
        source = textwrap.dedent(inspect.getsource(self.function))
        if source.count(self.line) != 1:
            raise ValueError(f"{self.function.__qualname__} has {source.count(self.line)} times {self.line!r}")
        flags = __future__.annotations.compiler_flag
        compiled = compile(source.replace(self.line, self.mutated), inspect.getfile(self.function), "exec", flags)
        return next(each for each in compiled.co_consts if isinstance(each, CodeType))

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the function the mutant, wherever it was imported, until the test ends."""
        monkeypatch.setattr(self.function, "__code__", self.code())


def without(**changes: object) -> Rules:
    """Return the rules of fixed mode with some fixes changed."""
    return replace(FIXED, mode="mutant", **changes)  # type: ignore[arg-type]


BY_RULES: dict[str, Rules] = {
    "fetches are not fenced": without(fenced=False),
    "the ISR is written over any version": without(compare_and_set=False),
    "producers are not idempotent": without(idempotent=False),
    "a follower takes any HW over": without(keeps_hw=False),
    "who comes back from a crash is in sync": without(broker_epochs=False),
    "the committer judges followers": without(judges_by_progress=False),
    "min ISR is looked at when a request comes": without(min_isr_at_commit=False),
    "who steps down answers nobody": without(answers_first=False),
    "the epoch is asked for once": without(truncation=Truncation.EPOCH),
    "logs are cut back to the HW": without(truncation=Truncation.HW),
    "a new leader takes its log's end for its HW": without(new_leader_hw=NewLeaderHw.LEO),
    "a new leader takes its checkpoint for its HW": without(new_leader_hw=NewLeaderHw.CHECKPOINT),
}

BY_LINE: dict[str, Line] = {
    "a follower is back before it has what was written before the epoch": Line(
        fetching._judge, "and offset >= partition.epoch_start", "and True"
    ),
    "a follower is back before it has what is committed": Line(
        fetching._judge,
        "and offset >= leader.hw\n        and offset >= partition.epoch_start",
        "and True",
    ),
    "a follower that was away is never back": Line(
        fetching._judge, "replica not in partition.isr", "replica in partition.isr"
    ),
    "one that is not registered comes back in sync": Line(
        fetching._is_registered,
        "return registered is not None and (not world.rules.broker_epochs or registered == request.incarnation)",
        "return True",
    ),
    "the HW is answered before it is earned": Line(
        fetching.replica_fetch, "thread, leader.hw, records", "thread, len(leader.log), records"
    ),
    "a fetch is answered from one record on too late": Line(
        fetching.replica_fetch, "log[offset : offset + world", "log[offset + 1 : offset + 1 + world"
    ),
    "what the followers had is remembered over an election": Line(
        leading.become_leader, "isr, ar, {}", "isr, ar, partition.leo"
    ),
    "a new leader forgets who was eligible": Line(
        leading.leader_election,
        "overwrite_isr(world, broker,",
        "store.isr, store.elr = isr, frozenset(); overwrite_isr(world, broker,",
    ),
    "anybody assigned may lead": Line(isr.may_lead, "if not clean or broker.id in clean:", "if True:"),
    "who leaves the ISR below min ISR is not eligible": Line(
        isr.overwrite_isr, "elr = (store.elr | store.isr) - isr", "elr = store.elr - isr"
    ),
    "an eligible replica that came back unclean keeps its place": Line(
        isr.remove_restarted_replica, "store.elr - {broker.id}", "store.elr"
    ),
    "the HW is what any in sync has": Line(committing.advance_hw, "if reached < hw:", "if reached > leader.hw:"),
    "the HW is what the first in sync has": Line(
        committing.advance_hw, "hw = reached\n", "hw = reached\n                    break\n"
    ),
    "the HW is the log's end": Line(committing.advance_hw, "if reached < hw:", "if False:"),
    "the HW is one farther than what all have": Line(
        committing.advance_hw, "leo.get(replica, 0)", "leo.get(replica, 0) + 1"
    ),
    "a record is acknowledged before it is committed": Line(
        committing.advance_hw, "partition.commit_q[0].offset <= hw", "partition.commit_q[0].offset <= hw + 1"
    ),
    "a leader that does not reach the store writes the ISR in its memory alone": Line(
        isr.write_isr,
        "if not world.sees_store(leader):\n",
        "if not world.sees_store(leader):\n        leader.partition.isr = isr\n",
    ),
    "a log is cut back one record too little": Line(
        following.truncate_to_leader, "broker.truncate(end)", "broker.truncate(end + 1)"
    ),
    "a log is not cut back": Line(following.truncate_to_leader, "broker.truncate(end)", "pass"),
    "an answer to a fetcher that was stopped is taken": Line(
        following._is_for, "and response.thread == broker.thread", ""
    ),
    "an answer to a broker's life before is taken": Line(
        following._is_for,
        "response.incarnation == broker.incarnation and response.thread == broker.thread",
        "True",
    ),
    "a follower that hears of its leader again cuts nothing back": Line(
        following.become_follower, "broker.fetcher = Fetcher.ASKS", "broker.fetcher = Fetcher.READY"
    ),
    "a follower does not cut its HW back with its log": Line(
        following.truncate_to_leader, "broker.set_hw(min(broker.hw, len(broker.log)))", "pass"
    ),
    "a record that is sent again is known only if it is the last": Line(
        producing.produce_request_handler, "request.number <= number", "request.number < number"
    ),
    "a record that is known already is acknowledged at once": Line(
        producing._answer_again, "not request.acks_all or end <= broker.hw", "True"
    ),
    "a producer's last record is sought among the committed ones": Line(
        producing.produce_request_handler, "producer_state(broker.log,", "producer_state(broker.log[: broker.hw],"
    ),
    "nobody is refused below min ISR": Line(
        producing.produce_request_handler, "len(partition.isr) < world.configuration.min_isr", "False"
    ),
    "a leader does not look at the ISR again": Line(
        startup.leader_change_event, "refresh_isr(world, broker)", "pass"
    ),
    "replicas that the partition was moved away from stay in sync": Line(
        committing.check_reassigned_replicas,
        "partition.isr & frozenset(rar)",
        "partition.isr | frozenset(rar)",
    ),
    "replicas that are not wanted any more are not told": Line(
        committing.check_reassigned_replicas, "world.request(gone, Request.REPLICA_UNASSIGNED)", "pass"
    ),
    "who steps down tells producers that all is written": Line(
        answers.step_down,
        "refuse(world, broker, each.request, NOT_LEADER)",
        "acknowledge(world, broker, each.request, each.first, 0)",
    ),
    "a log's end is its HW after a start": Line(
        startup.replica_state_change, "min(broker.checkpoint, len(broker.log))", "len(broker.log)"
    ),
    "the end of an epoch is taken one record too far": Line(
        Broker.end_of_epoch, "return self.log[at - 1].epoch, at\n", "return self.log[at - 1].epoch, at + 1\n"
    ),
    "an epoch that the leader does not know is answered with the next one": Line(
        Broker.end_of_epoch, "self.log[at - 1].epoch <= asked", "True"
    ),
}
