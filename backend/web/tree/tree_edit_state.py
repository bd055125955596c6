"""What an address of `/tree/edit` says: the tree that was opened, the steps since, how many of them are done.

Nothing of an edit is kept anywhere else: so the browser's Back takes a step back, and an address can be sent on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.tree.tree_edit import ROOT, Step, read_steps, written

EDIT = "/tree/edit"
_LONGEST_NUMBER = re.compile(r"[0-9]{1,9}")
_PLACE = re.compile(r"r[01]{0,31}")


@dataclass(frozen=True)
class EditState:
    """One address."""

    opened: int
    """Position of the event log at which the tree was opened."""
    steps: tuple[Step, ...] = ()
    done: int = 0
    """How many of the steps are done; the others are those that were taken back."""
    node: str = ROOT
    """The node that is chosen."""

    @property
    def steps_done(self) -> tuple[Step, ...]:
        return self.steps[: self.done]

    @property
    def fields(self) -> dict[str, str]:
        """As a form carries it."""
        return {
            "from": str(self.opened),
            "steps": written(self.steps),
            "done": str(self.done),
            "node": self.node,
        }

    @property
    def address(self) -> str:
        given = {name: value for name, value in self.fields.items() if value}
        return f"{EDIT}?{urlencode(given, safe=':,')}"

    def choosing(self, node: str) -> EditState:
        """With another node chosen."""
        return replace(self, node=node)

    def at_step(self, done: int) -> EditState:
        """With so many of its steps done."""
        return replace(self, done=max(0, min(done, len(self.steps))))

    def stepping(self, step: Step) -> EditState:
        """After one step more; what was taken back before is forgotten."""
        # Who takes a node out goes on above it; a node that has got a new one above is lower now.
        node = step.place[:-1] or ROOT if step.kind == "remove" else step.place
        if step.kind == "move":
            node = ROOT
        if step.kind == "add":
            node = f"{step.place}1"
        steps = (*self.steps_done, step)
        return replace(self, steps=steps, done=len(steps), node=node)


def state_of(given: Mapping[str, str], head: int) -> EditState:
    """From an address or a form; what is not said begins with the tree at `head`. Raises ValueInvalid."""
    steps = read_steps(given.get("steps", ""))
    opened, done = given.get("from", ""), given.get("done", "")
    node = given.get("node", ROOT)
    return EditState(
        opened=min(int(opened), head) if _LONGEST_NUMBER.fullmatch(opened) else head,
        steps=steps,
        node=node if _PLACE.fullmatch(node) else ROOT,
    ).at_step(int(done) if _LONGEST_NUMBER.fullmatch(done) else len(steps))


def step_of(given: Mapping[str, str]) -> Step:
    """The step that a form of the page asks for. Raises ValueInvalid."""
    argument = given.get("with", "").strip()
    step = Step(given.get("do", ""), given.get("node", ""), argument)
    if not argument and step.kind in ("add", "put", "move", "begin", "level"):
        detail = "choose what it is to be"
        raise ValueInvalid(detail, (FieldError(f"/{step.kind}", detail),))
    (found,) = read_steps(str(step)) or (None,)
    if found is None:
        raise ValueInvalid("this form was not sent by its page")
    return found


def in_words(step: Step, names: Mapping[str, str]) -> str:
    """A step as the list of steps says it; `names`: what each node was called then, by place."""
    here = names.get(step.place, step.place)
    said = {
        "begin": f"Begin with {step.argument}",
        "add": f"Add {step.argument} beside {here}",
        "remove": f"Take {here} out",
        "swap": f"Swap the sides of {here}",
        "put": f"Put {step.argument} in the place of {here}",
        "level": f"Make it level {step.argument}: {here}",
        "move": f"Move {here} beside {names.get(step.argument, step.argument)}",
        "room": f"Raise the levels above {here}",
        "primary": f"Make {step.argument} the primary",
    }
    return said[step.kind]
