# SPDX-License-Identifier: Apache-2.0
"""Refuse weights that would run code when they are loaded.

Cosmos Policy loads its weights with `torch.load(weights_only=False)`, which unpickles them. So the
names in that pickle are looked at first: those that rebuild tensors, and no others.
"""

from __future__ import annotations

import io
import mmap
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from rpent_box.backends.tensor_files import TorchFile, read_torch_file
from rpent_box.errors import BadCheckpoint

HARMLESS = {
    "collections.OrderedDict",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
    "torch.storage.UntypedStorage",
    "_codecs.encode",
    # Transformer Engine keeps its layers' extra state as a stream of bytes.
    "_io.BytesIO",
}
_NUMBERS = (
    "bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
_STORAGES = (
    "BFloat16", "Half", "Float", "Double", "Char", "Short", "Int", "Long", "Byte", "Bool",
    "Untyped",
)  # fmt: skip
_TORCH = {f"torch.{name}" for name in _NUMBERS} | {f"torch.{name}Storage" for name in _STORAGES}
# These name classes in ways that a reader of names does not see; torch.save writes none of them.
_OBSCURE = {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}


def require_harmless(path: str | Path, *, role: str) -> TorchFile:
    """Return what is known of weights that only rebuild tensors. Raises `BadCheckpoint`."""
    known = read_torch_file(path, role=role)
    try:
        with Path(path).open("rb") as file:
            strange = sorted(set(_strange_names(file, known)))
    except (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise BadCheckpoint(f"the {role} {path} cannot be read: {error}") from error
    if strange:
        raise BadCheckpoint(
            f"the {role} {path} would run more than the rebuilding of tensors when they are "
            f"loaded: {', '.join(strange)}",
            hint="If you trust its author, load it with PyTorch and save its tensors alone.",
        )
    return known


def _strange_names(file: IO[bytes], known: TorchFile) -> Iterator[str]:
    if known.layout == "legacy":
        # Mapped, because a file object makes room first for as much as the pickle says comes next.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            # A mark, a version, what the machine was like, the object, its storages' keys.
            for _ in range(5):
                yield from _names_in(cast("IO[bytes]", view))
        return
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith("/constants.pkl"):
                yield "TorchScript code"
            elif entry.filename.endswith("/data.pkl"):
                # torch.save stores it as it is; a compressed one could become any number of bytes.
                if entry.compress_type != zipfile.ZIP_STORED:
                    yield "a compressed pickle"
                else:
                    yield from _names_in(io.BytesIO(archive.read(entry)))


def _names_in(stream: IO[bytes]) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in _OBSCURE:
            yield f"the instruction {opcode.name}"
        elif opcode.name == "GLOBAL":
            name = str(argument).replace(" ", ".", 1)
            if name not in HARMLESS | _TORCH:
                yield name
