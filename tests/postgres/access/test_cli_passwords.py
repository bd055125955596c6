"""`treeline user password` reads a password without showing it in a list of processes or a shell's history."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.api.program import program_of
from tests.support.database.postgres import Database

PASSWORD = "correct horse battery"


def test_a_password_comes_from_stdin_or_the_environment_and_never_as_an_option(
    database: Database, tmp_path: Path
) -> None:
    with program_of(database.url, tmp_path) as program:
        file = tmp_path / "users.yaml"
        file.write_text("users: {ada: {role: tenant}, bob: {role: tenant}}")
        assert program("apply", "-f", str(file)).returncode == 0
        option = program("user", "password", "ada", "--new", PASSWORD)
        assert (option.returncode, "No such option" in option.stderr) == (2, True), option.stderr
        nothing = program("user", "password", "ada")
        assert (nothing.returncode, "no password on stdin" in nothing.stderr) == (2, True), nothing.stderr
        piped = program("user", "password", "ada", given=f"{PASSWORD}\n")
        named = program("user", "password", "bob", TREELINE_NEW_PASSWORD=PASSWORD)
        users = json.loads(program("get", "users", "-o", "json").stdout)["items"]
        for ended, name in ((piped, "ada"), (named, "bob")):
            assert ended.returncode == 0 and PASSWORD not in ended.stdout + ended.stderr, ended.stderr
            assert next(each for each in users if each["name"] == name)["has_password"] is True
