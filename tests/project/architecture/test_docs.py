"""Every setting, command and event is documented, with its purpose."""

from __future__ import annotations

import importlib.util

import pytest

from backend.eventlog.registry import domain_registry
from backend.settings import Settings
from tests.project.architecture.sources import PROJECT_ROOT

spec = importlib.util.spec_from_file_location("generate", PROJECT_ROOT / "docs" / "generate.py")
assert spec
assert spec.loader
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.mark.parametrize("page", generate.PAGES)
def test_the_page_says_what_the_code_does(page):
    written = (PROJECT_ROOT / "docs" / page).read_text()
    assert written == generate.PAGES[page](), "run `python docs/generate.py`"


def test_every_setting_says_what_it_is_for():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_command_and_option_says_what_it_is_for():
    silent = []
    for path, command in generate._commands(generate.typer.main.get_command(generate.app), "treeline"):
        silent += [path] if not command.help else []
        silent += [f"{path} {p.name}" for p in command.params if p.name != "help" and not getattr(p, "help", None)]
    assert silent == []


def test_every_event_says_what_happened():
    for name, cls in domain_registry().classes.items():
        assert cls.__doc__, name
        assert not cls.__doc__.startswith(f"{cls.__name__}("), f"{name} has only the docstring of its dataclass"
