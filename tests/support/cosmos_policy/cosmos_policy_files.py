# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's files, small and made here, as PyTorch and its publisher would have written them.

None of it needs PyTorch. The pickles are put together from their instructions: they are what
`pickle.dump` of tensors gives, and, for tests of safety, what it never would.
"""

from __future__ import annotations

import functools
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.checkpoint import (
    EMBEDDINGS,
    HF_HOME,
    STATISTICS,
    WEIGHTS,
)
from rpent_box.backends.cosmos_policy.embeddings import SHAPE, write_embeddings
from rpent_box.backends.cosmos_policy.hf_cache import BASE_MODEL, TEXT_ENCODER, TOKENIZER

INSTRUCTIONS = ("put the bowl on the plate", "put the bowl on the stove", "turn on the stove")
STORAGES = {"BF16": ("BFloat16Storage", "<u2"), "F32": ("FloatStorage", "<f4")}


def make_checkpoint(folder: Path) -> Path:
    """Write weights, statistics, converted embeddings and a cache into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_torch_zip(folder / WEIGHTS, {"net.x_embedder.weight": 1})
    write_statistics(folder / STATISTICS)
    write_embeddings(folder / EMBEDDINGS, bits_of(INSTRUCTIONS), {})
    make_hf_home(folder / HF_HOME)
    return folder


def write_statistics(path: Path, **changed: Any) -> None:
    values: dict[str, Any] = {
        "actions_min": [-0.9] * 6 + [-1.0],
        "actions_max": [0.9] * 6 + [1.0],
        "proprio_min": [-1.0] * 9,
        "proprio_max": [1.0] * 9,
        "actions_mean": [0.0] * 7,
        **changed,
    }
    path.write_text(json.dumps(values))


@functools.cache
def bits_of(instructions: tuple[str, ...], seed: int = 0) -> dict[str, NDArray[np.uint16]]:
    """Bits of finite bfloat16 numbers for each instruction."""
    rng = np.random.default_rng(seed)
    found = {}
    for instruction in instructions:
        numbers = rng.standard_normal(SHAPE).astype(np.float32)
        found[instruction] = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return found


def write_pickled(path: Path, tensors: dict[str, tuple[str, NDArray[Any]]]) -> Path:
    """Write name → (dtype, numbers) as `pickle.dump` of a dictionary of tensors does."""
    body = b"".join(text(name) + tensor(*stored) for name, stored in tensors.items())
    path.write_bytes(b"\x80\x04}(" + body + b"u.")
    return path


def tensor(dtype: str, numbers: NDArray[Any], *, offset: int = 0, shape: Any = None) -> bytes:
    """The instructions that rebuild one tensor."""
    shape = tuple(numbers.shape if shape is None else shape)
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    return b"".join(
        (
            named("torch._utils", "_rebuild_tensor_v2"),
            b"(",
            named("torch.storage", "_load_from_bytes"),
            blob(storage(dtype, numbers)),
            b"\x85R",
            number(offset),
            sizes(shape),
            sizes(strides),
            b"\x89",
            named("collections", "OrderedDict"),
            b")RtR",
        )
    )


def storage(dtype: str, numbers: NDArray[Any], *, numbers_told: int | None = None) -> bytes:
    """What `torch.save` writes for a storage in its old format."""
    kind, layout = STORAGES[dtype]
    count = numbers.size if numbers_told is None else numbers_told
    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    reference = b"".join(
        (
            b"\x80\x02(",
            text("storage"),
            f"ctorch\n{kind}\n".encode(),
            text("94112"),
            text("cpu"),
            number(count),
            b"NtQ.",
        )
    )
    return b"".join(
        (
            pickle.dumps(0x1950A86A20F9469CFC6C, 2),
            pickle.dumps(1001, 2),
            pickle.dumps(machine, 2),
            reference,
            pickle.dumps(["94112"], 2),
            struct.pack("<q", count),
            np.ascontiguousarray(numbers).astype(layout).tobytes(),
        )
    )


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def blob(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def sizes(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(number(value) for value in values) + b"t"


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


def write_torch_zip(path: Path, content: object, *, raw: bytes | None = None) -> Path:
    """Write what `torch.save` would; `raw` replaces the pickle of `content`."""
    data = pickle.dumps(content, 2) if raw is None else raw
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", data)
        archive.writestr(f"{path.stem}/data/0", b"\0" * 64)
        archive.writestr(f"{path.stem}/version", b"3\n")
    return path


def make_hf_home(folder: Path, *, without: str = "") -> Path:
    """Write a Hugging Face cache with the autoencoder, as its own client lays it out."""
    place = folder / "hub" / ("models--" + BASE_MODEL.replace("/", "--"))
    link = place / "snapshots" / "0123abcd" / TOKENIZER
    link.parent.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0123abcd")
    (place / "blobs").mkdir()
    if without != TOKENIZER:
        link.symlink_to(write_torch_zip(place / "blobs" / "b10b", {"encoder.weight": 1}))
    return folder


def make_text_encoder(hf_home: Path) -> Path:
    """Write empty files in T5-11B's places into a cache; return their folder."""
    place = hf_home / "hub" / ("models--" + TEXT_ENCODER.replace("/", "--"))
    snapshot = place / "snapshots" / "90f37703"
    snapshot.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(snapshot.name)
    for name in ("config.json", "spiece.model", "pytorch_model.bin"):
        (snapshot / name).touch()
    return snapshot
