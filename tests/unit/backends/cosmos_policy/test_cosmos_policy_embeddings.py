# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cosmos_policy_files import INSTRUCTIONS, bits_of

from rpent_box.backends.cosmos_policy.embeddings import SHAPE, TextEmbeddings, write_embeddings
from rpent_box.backends.cosmos_policy.instructions import Instructions
from rpent_box.errors import BadCheckpoint, BadObservation


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embeddings") / "e.safetensors"
    write_embeddings(path, bits_of(INSTRUCTIONS), {"source": "a test"})
    return path


def instructions(stored: Path, *, cached_only: bool, can_embed: bool) -> Instructions:
    return Instructions(
        embeddings=TextEmbeddings.open(stored), cached_only=cached_only, can_embed=can_embed
    )


def write_raw(path: Path, header: dict[str, object], data: bytes) -> Path:
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path


def test_an_embedding_is_found_by_the_exact_words(stored: Path) -> None:
    found = TextEmbeddings.open(stored).find("turn on the stove")
    assert found is not None
    assert (found.shape, found.dtype) == (SHAPE, np.float32)
    assert TextEmbeddings.open(stored).find("Turn on the stove") is None


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = write_raw(
        tmp_path / "w.safetensors",
        {"net.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        b"\0" * 8,
    )
    with pytest.raises(BadCheckpoint, match=r"F32 \[2\] for 'net.weight'; wanted BF16"):
        TextEmbeddings.open(path)


def test_a_file_without_embeddings_is_refused(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "w.safetensors", {"__metadata__": {}}, b"")
    with pytest.raises(BadCheckpoint, match="no embedding"):
        TextEmbeddings.open(path)


def test_a_cut_file_is_refused(tmp_path: Path, stored: Path) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(stored.read_bytes()[:-1])
    with pytest.raises(BadCheckpoint, match="cut"):
        TextEmbeddings.open(path)


def test_a_cached_instruction_gives_its_embedding(stored: Path) -> None:
    known = instructions(stored, cached_only=True, can_embed=False)
    assert isinstance(known.condition("turn on the stove"), np.ndarray)


def test_a_new_instruction_goes_to_the_model_in_words(stored: Path) -> None:
    known = instructions(stored, cached_only=False, can_embed=True)
    assert known.condition("turn off the stove") == "turn off the stove"


@pytest.mark.parametrize(
    ("cached_only", "can_embed", "hint"),
    [
        (True, True, "--cached-instructions-only"),
        (True, False, "--cached-instructions-only"),
        (False, False, "t5-11b"),
    ],
)
def test_a_new_instruction_that_nobody_embeds_is_refused_with_the_closest(
    stored: Path, cached_only: bool, can_embed: bool, hint: str
) -> None:
    known = instructions(stored, cached_only=cached_only, can_embed=can_embed)
    with pytest.raises(BadObservation, match="Closest: turn on the stove") as caught:
        known.condition("turn off the stove")
    assert hint in caught.value.hint
    assert "3 cached ones" in caught.value.message


def test_nothing_is_called_close_that_is_not(stored: Path) -> None:
    known = instructions(stored, cached_only=True, can_embed=False)
    with pytest.raises(BadObservation) as caught:
        known.condition("xyzzy")
    assert "Closest" not in caught.value.message
