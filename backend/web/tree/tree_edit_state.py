"""State of the tree editor, kept in the address of `/tree/edit`: the opened tree, the steps, how many are done.

Nothing of an edit is stored elsewhere: the browser's Back undoes a step, and an address can be shared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.tree.tree_edit import ROOT, Step, read_steps, write_steps

EDIT = "/tree/edit"
_LONGEST_NUMBER = re.compile(r"[0-9]{1,9}")
_PLACE = re.compile(r"r[01]{0,31}")


@dataclass(frozen=True)
class EditState:
    """State of an edit, equal to one address."""

    opened: int
    """Position of the event log at which the tree was opened."""
    steps: tuple[Step, ...] = ()
    done: int = 0
    """Number of steps that are done; the others were undone."""
    node: str = ROOT
    """Place of the selected node."""

    @property
    def steps_done(self) -> tuple[Step, ...]:
        return self.steps[: self.done]

    @property
    def fields(self) -> dict[str, str]:
        """Return the state as fields of a form."""
        return {
            "from": str(self.opened),
            "steps": write_steps(self.steps),
            "done": str(self.done),
            "node": self.node,
        }

    @property
    def address(self) -> str:
        given = {name: value for name, value in self.fields.items() if value}
        return f"{EDIT}?{urlencode(given, safe=':,')}"

    def choosing(self, node: str) -> EditState:
        """Return the state with another node selected."""
        return replace(self, node=node)

    def at_step(self, done: int) -> EditState:
        """Return the state with this number of steps done."""
        return replace(self, done=max(0, min(done, len(self.steps))))

    def stepping(self, step: Step) -> EditState:
        """Return the state after one more step; undone steps are dropped."""
        # After a removal the parent is selected; a node that got a new parent is one level lower now.
        node = step.place[:-1] or ROOT if step.kind == "remove" else step.place
        if step.kind == "move":
            node = ROOT
        if step.kind == "add":
            node = f"{step.place}1"
        steps = (*self.steps_done, step)
        return replace(self, steps=steps, done=len(steps), node=node)


def state_of(given: Mapping[str, str], head: int) -> EditState:
    """Parse an address or a form; missing values start with the tree at `head`. Raises ValueInvalid."""
    steps = read_steps(given.get("steps", ""))
    opened, done = given.get("from", ""), given.get("done", "")
    node = given.get("node", ROOT)
    return EditState(
        opened=min(int(opened), head) if _LONGEST_NUMBER.fullmatch(opened) else head,
        steps=steps,
        node=node if _PLACE.fullmatch(node) else ROOT,
    ).at_step(int(done) if _LONGEST_NUMBER.fullmatch(done) else len(steps))


def step_of(given: Mapping[str, str]) -> Step:
    """Return the step that a form of the page requests. Raises ValueInvalid."""
    argument = given.get("with", "").strip()
    step = Step(given.get("do", ""), given.get("node", ""), argument)
    if not argument and step.kind in ("add", "put", "move", "begin", "level"):
        detail = "choose a value"
        raise ValueInvalid(detail, (FieldError(f"/{step.kind}", detail),))
    (found,) = read_steps(str(step)) or (None,)
    if found is None:
        raise ValueInvalid("the form is incomplete: reload the page and try again")
    return found


def in_words(step: Step, names: Mapping[str, str]) -> str:
    """Describe a step for the list of steps; `names`: each node's name at that time, by place."""
    here = names.get(step.place, step.place)
    said = {
        "begin": f"Start with {step.argument}",
        "add": f"Add {step.argument} beside {here}",
        "remove": f"Remove {here}",
        "swap": f"Swap the sides of {here}",
        "put": f"Replace {here} by {step.argument}",
        "level": f"Set the level of {here} to {step.argument}",
        "move": f"Move {here} beside {names.get(step.argument, step.argument)}",
        "room": f"Raise the levels above {here}",
        "primary": f"Make {step.argument} the primary",
    }
    return said[step.kind]
