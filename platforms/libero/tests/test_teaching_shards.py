# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rpent_box.errors import OutputError
from rpent_box_libero.teaching.episode import Recording
from rpent_box_libero.teaching.shards import (
    ShardHeader,
    is_finished,
    read_header,
    shard_path,
    write_shard,
)

HEADER = ShardHeader(
    suite="libero_spatial",
    task=0,
    seed=1,
    first_episode=8,
    episodes=2,
    recording=Recording(),
)
COLUMNS = {"actions": np.arange(140, dtype=np.float32).reshape(2, 10, 7)}


def test_what_is_written_is_read_without_pickle(tmp_path: Path) -> None:
    path = shard_path(tmp_path, 1, 8)
    write_shard(path, msgspec.structs.replace(HEADER, instruction="pick", solved=2), COLUMNS)
    with np.load(path, allow_pickle=False) as shard:
        assert np.array_equal(shard["actions"], COLUMNS["actions"])
    assert read_header(path).instruction == "pick"
    assert [file.name for file in tmp_path.iterdir()] == ["seed-1-episode-000008.npz"]


def test_a_finished_shard_is_known_whatever_came_of_its_episodes(tmp_path: Path) -> None:
    path = shard_path(tmp_path, 1, 8)
    assert not is_finished(path, HEADER)
    write_shard(path, msgspec.structs.replace(HEADER, instruction="pick", solved=1), COLUMNS)
    assert is_finished(path, HEADER)


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(HEADER, student="mini-wam abc"),
        msgspec.structs.replace(HEADER, episodes=1),
        msgspec.structs.replace(HEADER, recording=Recording(noise=0.5)),
    ],
)
def test_a_shard_of_another_recipe_is_not_mixed_in(tmp_path: Path, other: ShardHeader) -> None:
    path = shard_path(tmp_path, 1, 8)
    write_shard(path, HEADER, COLUMNS)
    with pytest.raises(OutputError, match="other settings"):
        is_finished(path, other)


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_shard(tmp_path / "absent" / "shard.npz", HEADER, COLUMNS)
    assert list(tmp_path.iterdir()) == []
