# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from pi05_parts import write_tokenizer

from rpent_box.backends.pi05.vocabulary import count_pieces
from rpent_box.errors import BadCheckpoint


def test_pieces_are_counted_and_other_fields_are_not(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "words.model", 300)
    assert count_pieces(tmp_path / "words.model") == 300


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.999])
def test_a_cut_vocabulary_is_refused(tmp_path: Path, kept: float) -> None:
    write_tokenizer(tmp_path / "words.model", 300)
    whole = (tmp_path / "words.model").read_bytes()
    # In the middle of a piece: a cut between two pieces looks whole from outside.
    cut = int(len(whole) * kept) // 10 * 10 + 5
    (tmp_path / "words.model").write_bytes(whole[:cut])
    with pytest.raises(BadCheckpoint, match="cut or no sentencepiece model"):
        count_pieces(tmp_path / "words.model")


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"{}", b"\x0a" + b"\xff" * 12, b"\x0a"])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.model").write_bytes(content)
    with pytest.raises(BadCheckpoint, match="no sentencepiece model"):
        count_pieces(tmp_path / "words.model")


def test_a_vocabulary_without_pieces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.model").write_bytes(b"\x12\x01x")
    with pytest.raises(BadCheckpoint, match="no pieces"):
        count_pieces(tmp_path / "words.model")
