"""Protobuf's own compiler, `protoc`, as the parser of schemas: one process for each, with a time limit.

A parser in Python takes minutes for a megabyte; the compiler takes a tenth of a second, checks every rule of the
language in all of its editions, and resolves the names.
"""

from __future__ import annotations

import errno
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import google.type
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from backend.registry.formats.schema_model import CheckUnfinished, SchemaInvalid

_SECONDS = 60
_MOST_ERRORS = 5
_BUILT_IN = ("google/protobuf/", "google/type/")
_CONFLUENT = {
    "confluent/meta.proto": """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "confluent/types/decimal.proto": """syntax = "proto3"; import public "confluent/type/decimal.proto";
""",
    "confluent/type/variant.proto": """syntax = "proto3"; package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
""",
}
"""Files that clients import without a reference, since every registry has them: numbers and types are the
clients'."""


_OF_THE_NAME = {errno.ENAMETOOLONG, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.EILSEQ}
"""Errors for a name that no file can have; a full disk fails with another error."""


def compiled(
    text: str, imports: Mapping[str, str], before_exec: Callable[[], None] | None = None
) -> FileDescriptorSet:
    """Return the schema's file, last, after all that it imports. `imports`: path -> text.

    `before_exec` is called in the compiler's process before it starts; only a process without threads may use it.

    Raises SchemaInvalid with the compiler's messages, lines and columns; CheckUnfinished if it gives no verdict.
    """
    try:
        return _compiled(text, imports, before_exec)
    except OSError as error:
        raise CheckUnfinished(f"the Protobuf compiler cannot be started: {error.strerror or error}") from error


def _compiled(text: str, imports: Mapping[str, str], before_exec: Callable[[], None] | None) -> FileDescriptorSet:
    main = "schema.proto"
    while main in imports:
        main = f"_{main}"
    with tempfile.TemporaryDirectory(prefix="treeline-protobuf-") as folder:
        _lay_out(Path(folder), {**_CONFLUENT, **imports, main: text})
        result = Path(folder, ".compiled")
        command = [_protoc(), f"-I{folder}", f"-I{Path(google.type.__path__[0]).parents[1]}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, "--retain_options", f"-o{result}", main],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                preexec_fn=before_exec,
            )
        except subprocess.TimeoutExpired as error:
            raise CheckUnfinished(f"the Protobuf schema took longer than {_SECONDS} s to compile") from error
        if done.returncode in (-signal.SIGKILL, -signal.SIGTERM):
            raise CheckUnfinished("the Protobuf compiler was killed")
        if done.returncode:
            raise SchemaInvalid(_error_text(done.stderr.decode(errors="replace"), main, folder))
        files = _read(result.read_bytes())
    foreign = [
        file.name
        for file in files.file
        if file.name not in (main, *imports, *_CONFLUENT) and not file.name.startswith(_BUILT_IN)
    ]
    if foreign:
        raise SchemaInvalid(
            f"The Protobuf schema imports {', '.join(foreign)}, which is not one of its references."
        )
    return files


def _lay_out(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        # A reference's name is untrusted: it must stay within the folder.
        parts = PurePosixPath(name).parts
        outside = not parts or name.startswith("/") or "\\" in name or "\0" in name
        if outside or {"..", ".compiled"} & set(parts):
            raise SchemaInvalid(f"The reference name {name!r} is not a path that a Protobuf schema can import.")
        try:
            Path(folder, *parts[:-1]).mkdir(parents=True, exist_ok=True)
            Path(folder, *parts).write_bytes(text.encode())
        except OSError as error:
            if error.errno not in _OF_THE_NAME:
                raise
            raise SchemaInvalid(f"The reference name {name!r} cannot be a file name: {error.strerror}.") from error


def _read(data: bytes) -> FileDescriptorSet:
    try:
        return FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise SchemaInvalid("The Protobuf schema is nested too deeply.") from error


@cache
def _protoc() -> str:
    own = Path(sysconfig.get_path("scripts"), "protoc")
    found = str(own) if own.exists() else shutil.which("protoc")
    if not found:
        raise RuntimeError("no protoc to check Protobuf schemas: install requirements/runtime.txt again")
    return found


def _error_text(errors: str, main: str, folder: str) -> str:
    lines = [line.replace(f"{folder}/", "") for line in errors.splitlines() if ": warning: " not in line]
    place = re.compile(rf"^{re.escape(main)}:(?:(\d+):(\d+): )?")
    messages = [place.sub(lambda at: f"line {at[1]}, column {at[2]}: " if at[1] else "", line) for line in lines]
    more = f"; and {len(messages) - _MOST_ERRORS} more" if len(messages) > _MOST_ERRORS else ""
    return f"The Protobuf schema is invalid: {'; '.join(messages[:_MOST_ERRORS])}{more}"
