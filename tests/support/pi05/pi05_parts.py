# SPDX-License-Identifier: Apache-2.0
"""Checkpoints to look at: their files are right in everything but the numbers in the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pi05_tiny

from rpent_box.backends.pi05.configs import KNOWN_CONFIGS

VOCABULARY = 257_152
EMBEDDING = "paligemma_with_expert.paligemma.lm_head.weight"
STATISTICS = "assets/physical-intelligence/libero/norm_stats.json"
TOKENIZER = "big_vision/paligemma_tokenizer.model"
FULL_SIZE: dict[str, tuple[int, ...]] = {
    **KNOWN_CONFIGS["pi05_libero"].tensors,
    EMBEDDING: (VOCABULARY, 2048),
}


def write_checkpoint(folder: Path, tensors: Mapping[str, tuple[int, ...]] = FULL_SIZE) -> Path:
    """Write weights (with holes for numbers), statistics and a tokenizer; return `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / "model.safetensors", tensors)
    pi05_tiny.write_statistics(folder / STATISTICS)
    write_tokenizer(folder / TOKENIZER, 300)
    return folder


def write_weights(path: Path, tensors: Mapping[str, tuple[int, ...]]) -> None:
    """Write a safetensors file that takes next to no room, whatever the shapes."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + end)


def write_tokenizer(path: Path, pieces: int) -> None:
    """Write what a sentencepiece model looks like from outside: pieces, then a trainer's record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    piece = b"\x0a\x06bowl\x15\x00"
    record = b"x" * 300
    path.write_bytes((b"\x0a" + bytes([len(piece)]) + piece) * pieces + b"\x12\xac\x02" + record)
