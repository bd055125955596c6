"""The native loop is built where it can be; elsewhere the loop in Python does its work, and one line says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from backend.settings import PROJECT_ROOT

HAS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def installed(tmp_path):
    """A copy of the package without what was built, and a way to run Python in it."""
    shutil.copytree(
        PROJECT_ROOT / "backend", tmp_path / "backend", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )

    def run(*words, **environment):
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def available(run):
    return run("-c", "from backend.kafka.copy import native; print(native.available())").stdout.splitlines()[-1]


def test_without_a_compiler_the_loop_in_python_does_the_work(installed):
    built = installed("-m", "backend.kafka.copy.native.build", CC="no-such-compiler")
    assert built.returncode == 0
    (line,) = built.stderr.splitlines()
    assert "loop in Python" in line and "no-such-compiler" in line
    assert available(installed) == "False"


@HAS_COMPILER
def test_with_a_compiler_it_is_built_and_fits(installed):
    built = installed("-m", "backend.kafka.copy.native.build")
    assert (built.returncode, built.stderr) == (0, "")
    assert available(installed) == "True"


@HAS_COMPILER
def test_one_built_for_another_confluent_kafka_is_not_used(installed):
    installed("-m", "backend.kafka.copy.native.build")
    program = "import confluent_kafka; confluent_kafka.__version__ = '9.9'; from backend.kafka.copy import native;"
    told = installed("-c", program + "print(native.available())").stdout
    assert "built for confluent-kafka" in told and told.splitlines()[-1] == "False"


@HAS_COMPILER
def test_where_python_or_the_clients_do_not_fit_nothing_is_left_behind(installed, tmp_path):
    source = tmp_path / "backend" / "kafka" / "copy" / "native" / "loop.c"
    source.write_text(source.read_text().replace("sizeof(PyObject));", "2 * sizeof(PyObject));"))
    built = installed("-m", "backend.kafka.copy.native.build")
    assert built.returncode == 0 and "does not fit" in built.stderr
    assert available(installed) == "False"
