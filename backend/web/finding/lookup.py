"""Resources by words of their names, as far as a caller may do with them what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may
from backend.domain.switch.switch_facts import Place
from backend.queries.base.finding import Found, find
from backend.queries.base.group_finding import FoundGroup, find_groups
from backend.queries.base.topic_finding import FoundTopic, find_topics
from backend.queries.switch.active_clusters import list_active
from backend.queries.tree.trees import get_tree
from backend.web.finding.actions import Subject
from backend.web.finding.schema_names import SchemaNames
from backend.web.schemas.schemas_page import address_of


@dataclass(frozen=True)
class Lookup:
    """Looks up names for one request of a caller, in one snapshot of the database."""

    connection: Connection
    schemas: SchemaNames | None
    caller: Caller

    def resources(
        self,
        words: Sequence[str],
        most: int,
        kinds: Sequence[str] | None = None,
        needs: Action = Action.READ_TENANT,
    ) -> list[Found]:
        """Return resources of these kinds, of all by default, with a permission in their tenants."""
        return find(
            self.connection,
            words,
            most,
            estate=may(self.caller, Action.READ_ESTATE),
            tenants_seen=self.caller.tenants_for(needs),
            kinds=kinds,
        )

    def groups(self, words: Sequence[str], most: int) -> list[FoundGroup]:
        """Return consumer groups by logical or technical name."""
        return find_groups(self.connection, words, most, self.caller.tenants_for(Action.READ_TENANT))

    def topics(self, words: Sequence[str], most: int) -> list[FoundTopic]:
        """Return topics by technical name."""
        return find_topics(self.connection, words, most, self.caller.tenants_for(Action.READ_TENANT))

    def schema_subjects(self, words: Sequence[str], most: int) -> list[Subject]:
        """Return subjects of the primary, as far as its schemas have been read."""
        if self.schemas is None:
            return []
        cluster, names = self.schemas.cluster, self.schemas.find(words, most)
        return [Subject(name, given={"page": address_of(cluster, name)}) for name in names]

    def subjects(self, kind: str, words: Sequence[str], most: int, needs: Action) -> list[Subject]:
        """Return the resources of a kind that an action with this permission may be for."""
        match kind:
            case "subject":
                return self.schema_subjects(words, most)
            case "distributor":
                return self._distributors(words, most) if may(self.caller, needs) else []
            case "group":
                seen = self.caller.tenants_for(needs)
                rows = find_groups(self.connection, words, most, seen, reads_own=True)
                return [each for row in rows for each in _with_stream(row)]
            case "environment":
                return self._environments(words, most, needs)
        return [Subject(each.name) for each in self.resources(words, most, [kind], needs)]

    def _environments(self, words: Sequence[str], most: int, needs: Action) -> list[Subject]:
        """Return environments, each with its active cluster, if it is one for all zones."""
        names = [each.name for each in self.resources(words, most, ["environment"], needs)]
        places = {name: _place(name) for name in names}
        active: dict[Place, set[str]] = {}
        for row in list_active(self.connection, places=list(places.values())) if names else ():
            active.setdefault(row.place, set()).add(row.cluster or "")
        found = []
        for name, place in places.items():
            (only,) = active[place] if len(active.get(place, ())) == 1 else ("",)
            found.append(Subject(name, given={"from": only, "who": name} if only else {"who": name}))
        return found

    def _distributors(self, words: Sequence[str], most: int) -> list[Subject]:
        tree = get_tree(self.connection)
        found = []
        for cluster, level in sorted(tree.targets) if tree is not None else ():
            name = f"{cluster}:{level}"
            if all(word.lower() in name.lower() for word in words):
                found.append(Subject(name, given={"cluster": cluster, "level": str(level)}))
        return found[:most]


def _place(name: str) -> Place:
    tenant, instance, environment = name.split("/")
    return tenant, instance, environment


def _with_stream(row: FoundGroup) -> list[Subject]:
    """Return the group with a stream of its own environment; offsets are reset for such streams only."""
    own = [stream for stream in row.streams if row.place is not None and stream.startswith(f"{row.place}/")]
    given = {"group": row.name, "stream": own[0]} if own else {}
    return [Subject(row.name, row.place or "", given)] if own else []
