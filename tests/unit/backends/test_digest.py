# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path

from rpent_box.backends.digest import sha256_of


def test_the_hash_is_the_known_one_of_three_letters(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "abc") == sha256_of(str(tmp_path / "abc")) == known


def test_a_file_of_several_blocks_is_hashed_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "large").write_bytes(content)
    assert sha256_of(tmp_path / "large") == hashlib.sha256(content).hexdigest()
