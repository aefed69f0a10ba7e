# SPDX-License-Identifier: Apache-2.0
"""What weights' files say about themselves, read without a framework and without unpickling."""

from __future__ import annotations

import io
import json
import pickletools
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Literal

from msgspec import Struct

from rpent_box.errors import BadCheckpoint

LARGEST_HEADER = 100 * 1024 * 1024
LARGEST_PICKLE = 512 * 1024 * 1024
"""Of the names in a PyTorch file; its numbers lie beside them."""
_COPY_AGAIN = "Copy the file again, and compare its size with the original's."
_TEXT_OPCODES = {
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE",
    "SHORT_BINSTRING", "BINSTRING", "STRING",
}  # fmt: skip
_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip


class TensorEntry(Struct, frozen=True, kw_only=True):
    """One tensor of a safetensors file."""

    dtype: str
    """As the format spells it: `F32`, `BF16`, …"""
    shape: tuple[int, ...]


class SafetensorsHeader(Struct, frozen=True, kw_only=True):
    """What a safetensors file says about itself."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]


class TorchFile(Struct, frozen=True, kw_only=True):
    """What is known of a file that torch.save wrote."""

    layout: Literal["zip", "legacy"]
    """`zip`: its directory stands at its end, so that it is whole. `legacy`: one stream of pickles,
    of which nobody can say whether it is whole without loading it."""
    names: frozenset[str]
    """Every text constant in it: the keys of its dictionaries among them, at any depth."""


def read_safetensors_header(path: str | Path, *, role: str = "weights") -> SafetensorsHeader:
    """Return names, dtypes and shapes. Raises `BadCheckpoint` for a cut or foreign file."""
    path = Path(path)
    with _opened(path, role) as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= LARGEST_HEADER:
            raise BadCheckpoint(f"the {role} {path} is not a safetensors file")
        if 8 + length > size:
            raise _cut(path, role, f"its header alone takes {8 + length} bytes, it has {size}")
        header = _parse_header(file.read(length), path, role)
    raw_metadata = header.pop("__metadata__", None) or {}
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    _require_size(path, role, wanted=8 + length + end, size=size)
    return SafetensorsHeader(
        tensors={
            name: TensorEntry(dtype=entry["dtype"], shape=tuple(entry["shape"]))
            for name, entry in header.items()
        },
        metadata={str(key): str(value) for key, value in raw_metadata.items()},
    )


def read_torch_file(path: str | Path, *, role: str = "weights") -> TorchFile:
    """Return the layout of a file that torch.save wrote, and the names in it; executes nothing.

    Raises `BadCheckpoint` for a cut or foreign file.
    """
    path = Path(path)
    with _opened(path, role) as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(b"PK"):
            return TorchFile(layout="zip", names=_names_in_zip(file, path, role))
        if start.startswith(b"\x80"):
            return TorchFile(layout="legacy", names=_names_in_legacy(file, path, role))
    raise BadCheckpoint(
        f"the {role} {path} was not written by torch.save: it starts with {start!r}"
    )


def require_names(
    there: Iterable[str], wanted: Iterable[str], *, path: str | Path, role: str
) -> None:
    """Refuse weights without the names that a model reads. Raises `BadCheckpoint`."""
    names = set(there)
    missing = [name for name in wanted if name not in names]
    if missing:
        listed = ", ".join(sorted(names)[:8]) or "none"
        raise BadCheckpoint(
            f"the {role} {path} has no {' and no '.join(missing)}; its names are: {listed}, …",
            hint="This file may belong to another model or training stage.",
        )


def _parse_header(raw: bytes, path: Path, role: str) -> dict[str, Any]:
    try:
        header = json.loads(raw)
        for name, entry in header.items():
            if name != "__metadata__":
                _check_entry(entry)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"the {role} {path} is not a safetensors file: {error!r}") from error
    checked: dict[str, Any] = header
    return checked


def _check_entry(entry: dict[str, Any]) -> None:
    start, end = entry["data_offsets"]
    count = 1
    for length in entry["shape"]:
        count *= length
    width = _BYTES.get(entry["dtype"])
    if start < 0 or end < start or (width is not None and end - start != count * width):
        raise ValueError(f"{entry} contradicts itself")


def _require_size(path: Path, role: str, *, wanted: int, size: int) -> None:
    if size < wanted:
        raise _cut(path, role, f"it has {size} of {wanted} bytes")
    if size > wanted:
        raise BadCheckpoint(
            f"the {role} {path} has {size - wanted} bytes more than its header tells",
            hint=_COPY_AGAIN,
        )


def _names_in_zip(file: IO[bytes], path: Path, role: str) -> frozenset[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            pickles = [entry for entry in archive.infolist() if _is_pickle(entry)]
            if not pickles:
                raise BadCheckpoint(
                    f"the {role} {path} was not written by torch.save: it is another zip file"
                )
            if pickles[0].file_size > LARGEST_PICKLE:
                raise BadCheckpoint(f"the {role} {path} has {pickles[0].file_size} bytes of names")
            _require_entries_inside(archive, path, role)
            raw = archive.read(pickles[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise _cut(path, role, f"the zip file is not whole ({error})") from error
    return _text_constants(io.BytesIO(raw), 1, path, role)


def _require_entries_inside(archive: zipfile.ZipFile, path: Path, role: str) -> None:
    """Refuse a file with a hole: what the directory tells must lie before the directory."""
    for entry in archive.infolist():
        if entry.header_offset + 30 + entry.compress_size > archive.start_dir:
            raise _cut(path, role, f"{entry.filename} would lie outside of it")


def _is_pickle(entry: zipfile.ZipInfo) -> bool:
    return entry.filename.count("/") == 1 and entry.filename.endswith("/data.pkl")


def _names_in_legacy(file: IO[bytes], path: Path, role: str) -> frozenset[str]:
    # A mark, a version, what the machine was like, and then the object that was saved.
    return _text_constants(file, 4, path, role)


def _text_constants(stream: IO[bytes], pickles: int, path: Path, role: str) -> frozenset[str]:
    """Return the texts in the last of `pickles`, which follow each other in `stream`."""
    names: set[str] = set()
    try:
        for _ in range(pickles):
            names.clear()
            for opcode, argument, _ in pickletools.genops(stream):
                if opcode.name in _TEXT_OPCODES:
                    names.add(str(argument))
    except (ValueError, EOFError) as error:
        raise _cut(path, role, f"its names cannot be read ({error})") from error
    return frozenset(names)


def _opened(path: Path, role: str) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise BadCheckpoint(f"the {role} {path} cannot be read: {error.strerror}") from error


def _cut(path: Path, role: str, why: str) -> BadCheckpoint:
    return BadCheckpoint(f"the {role} {path} is cut or damaged: {why}", hint=_COPY_AGAIN)
