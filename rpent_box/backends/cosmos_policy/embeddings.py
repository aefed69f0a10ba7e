# SPDX-License-Identifier: Apache-2.0
"""The text embeddings of instructions, as a safetensors file whose tensors are named by them."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.checkpoint_files import require_file
from rpent_box.backends.tensor_files import read_safetensors_header
from rpent_box.errors import BadCheckpoint

SHAPE = (1, 512, 1024)
"""What T5-11B's encoder gives for one instruction: tokens, padded, by width."""
ROLE = "text embeddings"
_RESERVED = "__metadata__"


class TextEmbeddings:
    """Finds the embedding of an instruction. The file stays where it is, and is read in parts."""

    def __init__(self, path: Path, offsets: Mapping[str, int]) -> None:
        self._path = path
        self._offsets = offsets
        """Instruction → where its numbers begin in the file."""

    @classmethod
    def open(cls, path: Path) -> TextEmbeddings:
        """Check names, shapes and size. Raises `BadCheckpoint`."""
        require_file(path, role=ROLE)
        header = read_safetensors_header(path, role=ROLE)
        for name, tensor in header.tensors.items():
            if (tensor.dtype, tensor.shape) != ("BF16", SHAPE):
                raise BadCheckpoint(
                    f"{path} has {tensor.dtype} {list(tensor.shape)} for {name!r}; "
                    f"wanted BF16 {list(SHAPE)}",
                    hint="Convert the published file again: "
                    + converter_command(path.with_suffix(".pkl"), path),
                )
        if not header.tensors:
            raise BadCheckpoint(f"{path} has no embedding of any instruction")
        return cls(path, _offsets(path))

    @property
    def instructions(self) -> tuple[str, ...]:
        """The instructions that have an embedding, sorted."""
        return tuple(sorted(self._offsets))

    def find(self, instruction: str) -> NDArray[np.float32] | None:
        """Return float32 [1, 512, 1024], equal to the stored bfloat16; None: there is none."""
        offset = self._offsets.get(instruction)
        if offset is None:
            return None
        bits = np.fromfile(self._path, "<u2", count=int(np.prod(SHAPE)), offset=offset)
        # A bfloat16 is the upper half of a float32.
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(SHAPE)

    def near(self, instruction: str, count: int = 3) -> tuple[str, ...]:
        """Return the instructions that look most like `instruction`, best first."""
        return tuple(difflib.get_close_matches(instruction, self.instructions, count, cutoff=0.5))


def write_embeddings(
    path: Path, embeddings: Mapping[str, NDArray[np.uint16]], metadata: Mapping[str, str]
) -> None:
    """Write instruction → bits of bfloat16 [1, 512, 1024]; `path` is replaced whole or not at all.

    Raises `BadCheckpoint` for a name that the format has no room for.
    """
    header: dict[str, object] = {_RESERVED: dict(metadata)}
    offset = 0
    for instruction in sorted(embeddings):
        if instruction in ("", _RESERVED):
            raise BadCheckpoint(f"{instruction!r} cannot be the name of an instruction")
        end = offset + 2 * embeddings[instruction].size
        header[instruction] = {
            "dtype": "BF16",
            "shape": list(embeddings[instruction].shape),
            "data_offsets": [offset, end],
        }
        offset = end
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(len(raw).to_bytes(8, "little") + raw)
            for instruction in sorted(embeddings):
                file.write(embeddings[instruction].astype("<u2").tobytes())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def converter_command(source: Path, target: Path) -> str:
    """Return the command that writes `target` from the published pickle `source`."""
    return f"python -m rpent_box.backends.cosmos_policy.convert_embeddings {source} {target}"


def _offsets(path: Path) -> dict[str, int]:
    """Read where tensors begin, from a header that has been checked."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: 8 + length + entry["data_offsets"][0]
        for name, entry in header.items()
        if name != _RESERVED
    }
