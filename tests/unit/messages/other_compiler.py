"""A decoder process with another compiler of Protobuf schemas, which an environment variable names."""

from __future__ import annotations

import os

from backend.messages import decoder_child
from backend.registry.formats import protobuf_compiler

if __name__ == "__main__":
    protobuf_compiler._protoc = lambda: os.environ["TREELINE_TEST_COMPILER"]
    decoder_child.main()
