"""`/clusters/{cluster}/replication/-elect`: elect preferred leaders; follows `form_page.py`.

Leadership changes on the cluster by itself. The form carries what its preview has shown, and if an election would
now do something else, nothing is elected.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.changes.change import Change
from backend.cluster_requests.electing import Election, elect_preferred, refusals_by_reason
from backend.deciders import LEADER_ELECTIONS
from backend.domain.access.access import Action
from backend.domain.base.errors import DomainError, FieldError, PlanStale, StateConflict, ValueInvalid
from backend.domain.base.words import counted
from backend.domain.placement.leader_elections import MOST_TOPICS, event_stream
from backend.queries.clusters.clusters import ClusterRow
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, FieldEffect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.replication.replication_page import REPLICATION, cluster_trail, existing_cluster

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_BROKERS = 200
"""Most brokers with more or fewer leaders that are shown."""
_MOST_CHANGES = 8
_NAMED = 3


@router.get(REPLICATION + "/-elect")
def election_form(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, cluster))


@router.post(REPLICATION + "/-elect")
def elect(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the election, or elect."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, cluster), fields)


def _page(services: ConsoleServices, cluster: str) -> FormPage:
    with services.reading() as connection:
        row = existing_cluster(connection, cluster)
    here = REPLICATION.format(cluster=row.name)
    return FormPage(
        template="replication_elect_form.html",
        address=f"{here}/-elect",
        heading=f"Elect preferred leaders of {row.name}",
        trail=[*cluster_trail(row.name), ("Replication", here)],
        verb="Elect preferred leaders",
        act=_Electing(row, services.config.probe_timeout_seconds),
    )


# --- what it does


@dataclass(frozen=True)
class _Electing:
    """Change made by this form."""

    row: ClusterRow
    timeout_seconds: float

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Ask the cluster for its leaders."""
        topics = _topics(given)
        found = elect_preferred(self.row, topics, self.timeout_seconds, dry_run=True)
        return _effect(self.row.name, topics, found)

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Elect what the preview has shown, and record it."""
        done = RedirectResponse(REPLICATION.format(cluster=self.row.name), 303)
        if change_request.was_carried_out(once, given):
            return done
        try:
            self._elect(change_request, given, once)
        except DomainError:
            # The same form may have been sent twice at once, and the other request was faster.
            if not change_request.was_carried_out(once, given):
                raise
        return done

    def _elect(self, change_request: ChangeRequest, given: Fields, once: str) -> None:
        topics, seen = _topics(given), _Seen.read(given.get("seen", ""))
        found = elect_preferred(self.row, topics, self.timeout_seconds, dry_run=False, check=seen.check)
        if not found.elected:
            raise StateConflict(f"No leader was elected. {' '.join(_left(found))}")
        change = Change(
            LEADER_ELECTIONS, event_stream(self.row.name), lambda _: found.command(self.row.name, topics)
        )
        change_request.carry_out_once(change, once, given)


def _topics(given: Fields) -> tuple[str, ...] | None:
    """Return the topics of the form; None means all. Raises ValueInvalid."""
    topics = tuple(dict.fromkeys(given.get("topics", "").split()))
    if len(topics) > MOST_TOPICS:
        problem = f"names {len(topics):,} topics; at most {MOST_TOPICS:,} are allowed. Leave empty for all"
        raise ValueInvalid(problem, (FieldError("/topics", problem),))
    return topics or None


@dataclass(frozen=True)
class _Seen:
    """Summary of a preview that the form carries."""

    digest: str
    """Digest of the partitions with their current and preferred leaders."""
    elected: int
    leads: Mapping[str, Sequence[int]]
    """Broker -> partitions that it leads now and would lead, for brokers that would lead more or fewer."""

    @classmethod
    def of(cls, found: Election) -> _Seen:
        """Return the summary of a preview."""
        moves = sorted((*place, *brokers) for place, brokers in found.elected.items())
        leads = {str(broker): counts for broker, counts in _leads(found).items()}
        return cls(hashlib.sha256(json.dumps(moves).encode()).hexdigest(), len(found.elected), leads)

    @classmethod
    def read(cls, text: str) -> _Seen:
        """Parse what `kept` has written. Raises ValueInvalid."""
        try:
            found = cls(**json.loads(text))
            leads = {str(int(broker)): (int(now), int(then)) for broker, (now, then) in found.leads.items()}
            return cls(str(found.digest), int(found.elected), leads)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueInvalid("this form is invalid; open the page again") from error

    @property
    def kept(self) -> str:
        """Return the summary as text."""
        return json.dumps(asdict(self))

    def check(self, found: Election) -> None:
        """Raise PlanStale with the differences if an election would now do something else."""
        now = _Seen.of(found)
        if now.digest == self.digest:
            return
        raise PlanStale(
            "Nothing was elected: the cluster has changed since the preview. "
            f"{' '.join(self._differences(now))} Preview again to see the current election."
        )

    def _differences(self, now: _Seen) -> list[str]:
        if not now.elected:
            return ["There is nothing left to elect."]
        told = []
        if now.elected != self.elected:
            told.append(f"{counted(now.elected, 'partition')} would change leaders, previously {self.elected:,}.")
        brokers = sorted(self.leads.keys() | now.leads.keys(), key=int)
        changed = [broker for broker in brokers if self.leads.get(broker) != now.leads.get(broker)]
        for broker in changed[:_MOST_CHANGES]:
            told.append(
                f"Broker {broker} {_turned(now.leads.get(broker))}; "
                f"in the preview it {_turned(self.leads.get(broker))}."
            )
        if len(changed) > _MOST_CHANGES:
            told.append(f"{counted(len(changed) - _MOST_CHANGES, 'more broker')} changed.")
        return told or ["Other partitions would change leaders."]


def _turned(counts: Sequence[int] | None) -> str:
    return "would keep its leaders" if counts is None else f"would go from {counts[0]:,} to {counts[1]:,}"


# --- what it says


def _leads(found: Election) -> dict[int, tuple[int, int]]:
    """Return broker -> partitions that it leads now and would lead, for brokers that would lead more or fewer."""
    more = Counter[int]()
    for old, new in found.elected.values():
        more[new] += 1
        more[old] -= 1
    before = found.leaders
    return {
        broker: (before.get(broker, 0), before.get(broker, 0) + change)
        for broker, change in sorted(more.items())
        if change
    }


def _effect(cluster: str, topics: tuple[str, ...] | None, found: Election) -> Effect:
    leads = _leads(found)
    notes = _left(found)
    if len(leads) > _MOST_BROKERS:
        notes.append(f"The table shows {_MOST_BROKERS} of {len(leads):,} brokers that would lead more or fewer.")
    return Effect(
        sentence=_sentence(cluster, found, leads),
        same=_same(cluster, topics),
        fields=tuple(
            FieldEffect(f"Broker {broker} leads", f"{now:,}", f"{then:,}")
            for broker, (now, then) in list(leads.items())[:_MOST_BROKERS]
        ),
        notes=tuple(notes),
        nothing=not found.elected,
        kept={"seen": _Seen.of(found).kept},
    )


def _sentence(cluster: str, found: Election, leads: Mapping[int, tuple[int, int]]) -> str:
    already = (
        f"{counted(found.already, 'partition')} of {cluster} {_is(found.already)} "
        "already led by the preferred replica"
    )
    if not found.elected:
        return f"There is nothing to elect: {already}."
    gain = sum(then > now for now, then in leads.values())
    lose = len(leads) - gain
    turn = (
        f"{counted(gain, 'broker')} will lead more partitions, {counted(lose, 'broker')} fewer"
        if leads
        else "Each broker leads as many as before"
    )
    return (
        f"The preferred replica will lead {counted(len(found.elected), 'partition')}; {already}. {turn}. "
        "Only in-sync replicas are elected, so no records are lost; clients find new leaders by themselves."
    )


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _left(found: Election) -> list[str]:
    """Return the reasons for partitions that are left as they are."""
    return [
        f"{counted(len(places), 'partition')} not elected: {reason} ({_named(places)})."
        for reason, places in sorted(refusals_by_reason(found.refused).items())
    ]


def _named(places: Sequence[tuple[str, int]]) -> str:
    names = ", ".join(f"{topic}-{number}" for topic, number in places[:_NAMED])
    return f"{names} and {len(places) - _NAMED:,} more" if len(places) > _NAMED else names


def _same(cluster: str, topics: tuple[str, ...] | None) -> SameChange:
    named = "".join(f" --topic {shlex.quote(topic)}" for topic in topics or ())
    body: dict[str, Any] | None = None if topics is None else {"topics": list(topics)}
    command = f"treeline replication elect-leaders {cluster}{named}"
    return SameChange(None, command, curl("POST", f"/api/v1/clusters/{cluster}/elect-preferred-leaders", body))
