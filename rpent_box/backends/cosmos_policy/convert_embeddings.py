# SPDX-License-Identifier: Apache-2.0
"""Convert Cosmos Policy's pickled text embeddings to safetensors, once; serving reads only those.

    python -m rpent_box.backends.cosmos_policy.convert_embeddings IN.pkl OUT.safetensors

IN.pkl is the published `libero_t5_embeddings.pkl`, a pickled dictionary of instruction → tensor. It
is read as data: nothing that it names is run, and a file that asks for more is refused. Needs
neither PyTorch nor a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.checkpoint_files import require_file
from rpent_box.backends.cosmos_policy.embeddings import ROLE, SHAPE, write_embeddings
from rpent_box.backends.cosmos_policy.tensor_pickle import Tensor, read_tensors
from rpent_box.backends.digest import sha256_of
from rpent_box.errors import BadCheckpoint, OutputError, RpentBoxError

PROGRAM = "python -m rpent_box.backends.cosmos_policy.convert_embeddings"


def main(words: Sequence[str] | None = None) -> int:
    """Convert one file; return the exit code: 0, or 2 with the reason on standard error."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Convert pickled text embeddings to safetensors."
    )
    parser.add_argument("source", metavar="IN.pkl", type=Path)
    parser.add_argument("target", metavar="OUT.safetensors", type=Path)
    arguments = parser.parse_args(words)
    try:
        count = convert(arguments.source, arguments.target)
    except RpentBoxError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{arguments.target}: {count} instructions\n")
    return 0


def convert(source: Path, target: Path) -> int:
    """Write `target` from `source`; return how many instructions it has.

    Raises `BadCheckpoint` for a file that is not a dictionary of embeddings, `OutputError` where
    `target` cannot be written.
    """
    require_file(source, role=f"pickled {ROLE}")
    found = read_tensors(source)
    if not found:
        raise BadCheckpoint(f"{source} has no embedding of any instruction")
    embeddings = {name: _bits(name, tensor, source) for name, tensor in found.items()}
    metadata = {
        "format": "rpent-box cosmos-policy text embeddings 1",
        "source": source.name,
        "source_sha256": sha256_of(source),
    }
    try:
        write_embeddings(target, embeddings, metadata)
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written: {error.strerror}", hint="Name another OUT.safetensors."
        ) from error
    return len(embeddings)


def _bits(name: str, tensor: Tensor, source: Path) -> NDArray[np.uint16]:
    """Return the bits of bfloat16 [1, 512, 1024]; float32 is rounded, as the model would round it.

    Files that Cosmos Policy's own evaluation has added an instruction to hold it as float32.
    """
    if tensor.numbers.shape != SHAPE:
        raise BadCheckpoint(
            f"{source} has {list(tensor.numbers.shape)} for {name!r}; wanted {list(SHAPE)}"
        )
    bits = tensor.numbers if tensor.dtype == "BF16" else rounded_to_bfloat16(tensor.numbers)
    if ((bits & 0x7F80) == 0x7F80).any():
        raise BadCheckpoint(f"{source} has a number for {name!r} that is not finite")
    return bits


def rounded_to_bfloat16(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16 of each float32, ties to even. NaN stays one."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16)


if __name__ == "__main__":
    sys.exit(main())
