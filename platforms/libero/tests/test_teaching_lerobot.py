# SPDX-License-Identifier: Apache-2.0
"""The files of a dataset, read with nothing of ours: pyarrow, av and the layout's own paths."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from pretended_scene import PretendedScene

from rpent_box.errors import OutputError
from rpent_box_libero.teaching.episode import Episode, Recording, record_episode
from rpent_box_libero.teaching.lerobot.finish import finish_dataset, unfinish
from rpent_box_libero.teaching.lerobot.layout import record_path
from rpent_box_libero.teaching.lerobot.writer import read_records, write_episode, write_whole

CAMERAS = ("observation.images.primary", "observation.images.wrist")


def play(seed: int) -> Episode:
    scene: Any = PretendedScene(size=256)
    return record_episode(scene, np.random.default_rng(seed), Recording(), None)


@pytest.fixture(scope="module")
def episodes() -> dict[int, Episode]:
    """Episode 1 is missing; 1000 lies in the second chunk."""
    return {number: play(number) for number in (0, 2, 1000)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, episodes: dict[int, Episode]) -> Path:
    """Tests that write take `own_folder`."""
    made = tmp_path_factory.mktemp("dataset")
    for number, episode in episodes.items():
        write_episode(made, number, "a", episode)
    finish_dataset(made)
    return made


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "own"))


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Return all rows as LeRobot reads them: of all data files, in order of their paths."""
    return [row for path in sorted(folder.glob("data/*/*.parquet")) for row in _rows(path)]


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def info_of(folder: Path) -> dict[str, Any]:
    info: dict[str, Any] = json.loads((folder / "meta/info.json").read_text())
    return info


def test_rows_hold_what_was_recorded(folder: Path, episodes: dict[int, Episode]) -> None:
    rows = iter(read_all(folder))
    for index, episode in enumerate(episodes.values()):
        for frame, wanted in enumerate(episode.rows):
            row = next(rows)
            assert np.array_equal(row["action"], np.float32(wanted.label))
            assert np.array_equal(row["executed_action"], np.float32(wanted.executed))
            assert row["observation.state"][:3] == [np.float32(episode.initial_state[1])] * 3
            assert row["timestamp"] == frame / 4
            assert row["frame_index"] == frame
            assert row["episode_index"] == index
            assert row["next.done"] == (frame == len(episode.rows) - 1)
    assert next(rows, None) is None


def test_rows_are_numbered_through_in_the_order_in_which_the_files_are_read(folder: Path) -> None:
    rows = read_all(folder)
    assert [row["index"] for row in rows] == list(range(len(rows)))
    assert info_of(folder)["total_frames"] == len(rows)


def test_every_episode_says_where_its_rows_and_frames_lie(folder: Path) -> None:
    info = info_of(folder)
    described = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [one["episode_index"] for one in described] == [0, 1, 2]
    rows = read_all(folder)
    for one in described:
        path = info["data_path"].format(
            chunk_index=one["data/chunk_index"], file_index=one["data/file_index"]
        )
        own = pq.read_table(folder / path).to_pylist()
        assert own == rows[one["dataset_from_index"] : one["dataset_to_index"]]
        assert len(own) == one["length"]
        for key in CAMERAS:
            path = info["video_path"].format(
                video_key=key,
                chunk_index=one[f"videos/{key}/chunk_index"],
                file_index=one[f"videos/{key}/file_index"],
            )
            times = [time for time, _ in decode(folder / path)]
            assert times == [row["timestamp"] for row in own]
            assert one[f"videos/{key}/from_timestamp"] == 0
            assert one[f"videos/{key}/to_timestamp"] == len(own) / 4


def decode(path: Path) -> list[tuple[float, np.ndarray]]:
    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
    return [(frame.time, frame.to_ndarray(format="rgb24")) for frame in frames]


def test_frames_are_the_recorded_ones(folder: Path, episodes: dict[int, Episode]) -> None:
    shown = decode(folder / "videos/observation.images.wrist/chunk-001/file-000.mp4")
    wanted = [row.observation.images["wrist"] for row in episodes[1000].rows]
    assert len(shown) == len(wanted)
    for (_, frame), pixels in zip(shown, wanted, strict=True):
        assert frame.shape == (256, 256, 3)
        assert np.abs(frame.astype(int) - pixels).max() <= 3


def test_each_row_names_its_sentence(folder: Path, episodes: dict[int, Episode]) -> None:
    table = pq.read_table(folder / "meta/tasks.parquet")
    tasks = dict(zip(table["task_index"].to_pylist(), table["task"].to_pylist(), strict=True))
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == ["task"]
    sentences = [episode.sentence for episode in episodes.values()]
    assert set(tasks.values()) == set(sentences)
    for row in read_all(folder):
        assert tasks[row["task_index"]] == sentences[row["episode_index"]]


def test_columns_are_as_info_describes_them(folder: Path) -> None:
    features = info_of(folder)["features"]
    table = pq.read_table(folder / "data/chunk-000/file-000.parquet")
    assert table.column_names == [name for name in features if name not in CAMERAS]
    for name in table.column_names:
        values = np.array(table[name].to_pylist())
        wanted = tuple(features[name]["shape"])
        assert values.shape[1:] == (() if wanted == (1,) else wanted), name
    for key in CAMERAS:
        assert features[key]["dtype"] == "video"
        assert features[key]["shape"] == [256, 256, 3]


def test_statistics_are_those_of_all_rows(folder: Path) -> None:
    statistics = json.loads((folder / "meta/stats.json").read_text())
    rows = read_all(folder)
    for name in ("action", "observation.state", "index", "progress"):
        values = np.array([row[name] for row in rows], np.float64)
        values = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
        assert np.allclose(statistics[name]["mean"], values.mean(0)), name
        assert np.allclose(statistics[name]["std"], values.std(0), atol=1e-7), name
        assert np.allclose(statistics[name]["min"], values.min(0)), name
        assert np.allclose(statistics[name]["max"], values.max(0)), name
        assert statistics[name]["count"] == [len(rows)]
    assert np.shape(statistics[CAMERAS[0]]["mean"]) == (3, 1, 1)
    assert statistics[CAMERAS[0]]["max"][0][0][0] < 0.3


def test_episodes_added_later_are_numbered_in(
    own_folder: Path, episodes: dict[int, Episode]
) -> None:
    before = info_of(own_folder)["total_episodes"]
    unfinish(own_folder)
    assert not (own_folder / "meta/info.json").exists()
    write_episode(own_folder, 1, "a", play(1))
    finished = finish_dataset(own_folder)
    assert finished.episodes == before + 1 == len(episodes) + 1
    rows = read_all(own_folder)
    assert [row["index"] for row in rows] == list(range(finished.rows))
    assert sorted({row["episode_index"] for row in rows}) == [0, 1, 2, 3]


def test_what_a_killed_writer_left_does_not_count(own_folder: Path) -> None:
    before = read_all(own_folder)
    write_episode(own_folder, 7, "a", play(7))
    (own_folder / record_path(7)).unlink()  # killed before the record, which is the last
    (own_folder / "data/chunk-000/.file-008.parquet.1.partial").write_bytes(b"PAR1")
    finish_dataset(own_folder)
    assert read_all(own_folder) == before
    assert not list(own_folder.rglob("*.partial"))
    assert not list(own_folder.glob("videos/*/chunk-000/file-007.mp4"))


def test_a_recorded_episode_without_its_video_is_an_error(own_folder: Path) -> None:
    next(own_folder.glob("videos/*/chunk-000/file-002.mp4")).unlink()
    with pytest.raises(OutputError, match="missing"):
        finish_dataset(own_folder)


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        write_whole(tmp_path / "file", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_record_keeps_the_initial_state_to_the_last_bit(
    folder: Path, episodes: dict[int, Episode]
) -> None:
    states = [record.initial_state for record in read_records(folder)]
    assert states == [tuple(episode.initial_state) for episode in episodes.values()]


def test_a_broken_record_is_an_error_with_its_path(own_folder: Path) -> None:
    (own_folder / record_path(2)).write_bytes(msgspec.json.encode({"number": 2}))
    with pytest.raises(OutputError, match="episode-000002"):
        read_records(own_folder)
