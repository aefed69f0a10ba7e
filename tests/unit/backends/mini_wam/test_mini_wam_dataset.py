# SPDX-License-Identifier: Apache-2.0
"""Reading demonstrations. Needs pyarrow and PyAV, no PyTorch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'rpent-box[train]'")
pytest.importorskip("av", reason="needs PyAV: pip install 'rpent-box[train]'")

import pyarrow as pa
import pyarrow.parquet as parquet
from mini_wam_demonstrations import Pretended, frames_of, write_folder, write_video

from rpent_box.backends.mini_wam import demonstrations as reading
from rpent_box.backends.mini_wam.dataset import HELD_OUT_OF, is_held_out, read_dataset
from rpent_box.backends.mini_wam.demonstrations import read_demonstrations
from rpent_box.errors import BadOption

BOWL, DRAWER = "pick up the bowl", "open the drawer"
FIRST_HELD_OUT = [9, 18, 27]
"""Of lesson bowl, seed 1."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    episodes = [Pretended("bowl", BOWL), Pretended("drawer", DRAWER, rows=4)]
    return write_folder(tmp_path_factory.mktemp("demonstrations"), episodes)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    episodes = [Pretended("bowl", BOWL, rows=5, student_acts=True)]
    return write_folder(tmp_path_factory.mktemp("more"), episodes, seed=1)


def test_rows_of_all_folders_come_one_after_the_other(
    folder: Path, other: Path, tmp_path: Path
) -> None:
    dataset = read_dataset([folder, other], tmp_path)
    assert len(dataset) == len(dataset.frames) == 6 + 4 + 5
    assert dataset.sentences == (DRAWER, BOWL)
    assert [dataset.sentences[index] for index in dataset.sentence[[0, 6, 10]]] == [
        BOWL,
        DRAWER,
        BOWL,
    ]
    assert [dataset.lessons[index] for index in dataset.lesson[[5, 9]]] == ["bowl", "drawer"]
    assert np.flatnonzero(dataset.student_acts).tolist() == list(range(10, 15))
    assert [source.rows_by_lesson for source in dataset.sources] == [
        {"bowl": 6, "drawer": 4},
        {"bowl": 5},
    ]


def test_a_future_is_two_rows_ahead_and_comes_of_what_both_rows_did(
    folder: Path, tmp_path: Path
) -> None:
    dataset = read_dataset([folder], tmp_path)
    assert dataset.future.tolist() == [2, 3, 4, 5, -1, -1, 8, 9, -1, -1]
    done = np.array(
        parquet.read_table(folder / "data" / "chunk-000" / "file-001.parquet")[
            "executed_action"
        ].to_pylist(),
        np.float32,
    )
    assert np.array_equal(dataset.executed[6], np.concatenate([done[0], done[1]]))
    assert dataset.executed.shape == (10, 10, 7)


def test_frames_are_those_of_their_rows_and_cameras(folder: Path, tmp_path: Path) -> None:
    dataset = read_dataset([folder], tmp_path)
    taken = dataset.frames.take(np.array([7, 0])).astype(int)
    assert taken.shape == (2, 2, 3, 128, 128)
    for place, (number, row) in enumerate(((1, 1), (0, 0))):
        for camera, role in enumerate(("primary", "wrist")):
            wanted = int(frames_of(number, 6, role)[row][0, 0, 0])
            assert abs(taken[place, camera].mean() - wanted) < 1.5


def test_frames_are_decoded_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read_dataset([folder], tmp_path).frames.take(np.arange(10))
    monkeypatch.setattr(reading, "_decoded", lambda path: pytest.fail(f"decodes {path} again"))
    assert np.array_equal(read_dataset([folder], tmp_path).frames.take(np.arange(10)), first)


def test_decoding_that_was_stopped_leaves_no_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(reading, "_decoded", lambda path: iter(()))
        with pytest.raises(BadOption, match="ends after 0 of"):
            read_dataset([folder], tmp_path)
    assert not list(tmp_path.glob("*.npy"))
    assert len(read_dataset([folder], tmp_path).frames) == 10


def test_an_episode_may_lie_within_a_longer_video(folder: Path, tmp_path: Path) -> None:
    episode = read_demonstrations(folder).episodes[0]
    long = tmp_path / "long.mp4"
    write_video(long, [*frames_of(5, 3, "primary"), *frames_of(0, 6, "primary")])
    later = type(episode)(
        **{**vars(episode), "videos": (long, episode.videos[1]), "first_frames": (3, 0)}
    )
    assert np.abs(later.frames().astype(int) - episode.frames()).max() < 4


def test_an_episode_is_held_out_wherever_it_lies_and_whatever_else_is_there(tmp_path: Path) -> None:
    episodes = [Pretended("bowl", BOWL, rows=2, within=number) for number in range(8)]
    one = write_folder(tmp_path / "one", episodes)
    other = write_folder(tmp_path / "other", [Pretended("drawer", DRAWER, rows=2)], seed=5)
    part = write_folder(tmp_path / "part", episodes[3:4])
    last = write_folder(
        tmp_path / "last", [Pretended("drawer", DRAWER, rows=2, within=4), episodes[3]]
    )
    later = write_folder(
        tmp_path / "later", [Pretended("bowl", BOWL, rows=2, within=5 + n) for n in range(8)]
    )
    shares = [{"name": "drawer", "episodes": 5}, {"name": "bowl", "episodes": 8}]
    recipe = {"seed": 0, "student": "", "lessons": shares}
    (later / "meta" / "rpent_box.json").write_text(json.dumps(recipe))
    held_out = [False, False, False, True, *[False] * 4]
    for folders, wanted in (
        ([one], held_out),
        ([one, other], [*held_out, False]),
        ([other, one], [False, *held_out]),
        ([part], [True]),
        ([later], held_out),
        ([last], [False, True]),
    ):
        dataset = read_dataset(folders, tmp_path)
        assert dataset.held_out.tolist() == list(np.repeat(wanted, 2))


def test_about_one_episode_in_seventeen_is_held_out_the_same_ones_each_time(folder: Path) -> None:
    first = read_demonstrations(folder).episodes[0]
    chosen = [
        is_held_out(seed, replace(first, within=within))
        for seed in ("1", "2", "not stated")
        for within in range(2000)
    ]
    assert 0.9 < sum(chosen) * HELD_OUT_OF / len(chosen) < 1.1
    those = np.flatnonzero(chosen[:40]).tolist()
    assert those == FIRST_HELD_OUT, "a rule that changes needs another name"


def test_held_out_rows_decide_no_statistics(tmp_path: Path) -> None:
    episodes = [Pretended("a", BOWL, rows=2)] * 17
    dataset = read_dataset([write_folder(tmp_path / "data", episodes, seed=1)], tmp_path)
    taught = dataset.proprio[~dataset.held_out]
    assert len(taught) == 32
    statistics = dataset.statistics()
    assert statistics.proprio_mean == pytest.approx(taught.mean(0), abs=1e-5)
    assert statistics.proprio_deviation == pytest.approx(taught.std(0), abs=1e-5)


def test_other_content_has_another_hash(folder: Path, other: Path, tmp_path: Path) -> None:
    prints = [
        tuple(source.sha256 for source in read_dataset(folders, tmp_path).sources)
        for folders in ([folder], [other], [folder, other], [folder])
    ]
    assert len(set(prints)) == 3
    assert prints[0] == prints[3]


def test_a_sentence_that_is_kept_for_scoring_is_not_learnt_from(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", "Switch on the stove")])
    with pytest.raises(BadOption, match="a sentence that LIBERO-Pro scores: 'Switch on the stove'"):
        read_dataset([folder], tmp_path)


@pytest.mark.parametrize("missing", ["info.json", "tasks.parquet"])
def test_an_unfinished_folder_is_refused(tmp_path: Path, missing: str) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    (folder / "meta" / missing).unlink()
    with pytest.raises(BadOption, match=rf"no finished demonstrations.*{missing}"):
        read_dataset([folder], tmp_path)


def test_another_layout_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    info = folder / "meta" / "info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "codebase_version": "v2.1"}))
    with pytest.raises(BadOption, match=r"v2\.1; wanted v3\.0"):
        read_dataset([folder], tmp_path)


def test_an_episode_with_other_rows_than_its_record_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 5), path)
    with pytest.raises(BadOption, match="has 5 rows, its record says 6"):
        read_dataset([folder], tmp_path)


def test_a_folder_without_a_needed_column_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    for path, column in (
        (folder / "data" / "chunk-000" / "file-000.parquet", "thing_position"),
        (folder / "meta" / "tasks.parquet", "task"),
        (folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet", "rpent_box/lesson"),
    ):
        whole = parquet.read_table(path)
        parquet.write_table(whole.drop_columns([column]), path)
        with pytest.raises(BadOption, match=f"{path.name} has no .*{column}") as caught:
            read_dataset([folder], tmp_path)
        assert "docs/training.md" in caught.value.hint
        parquet.write_table(whole, path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("action", [[[0.0] * 7] * 9] * 6),
        ("action", [[[0.0] * 7] * 10] * 5 + [[[0.0] * 7] * 9]),
        ("progress", ["half"] * 6),
        ("progress", [0.5, None, 0.5, 0.5, 0.5, 0.5]),
        ("thing_position", [[0.0, 0.0, float("nan")]] * 6),
        ("student_acts", ["false"] * 6),
        ("task_index", [0.0] * 6),
    ],
)
def test_a_column_of_another_shape_or_type_is_refused_by_name(
    tmp_path: Path, column: str, values: list[object]
) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index(column)
    parquet.write_table(table.set_column(place, column, pa.array(values)), path)
    with pytest.raises(BadOption, match=f"column {column} of .*file-000.parquet is not"):
        read_dataset([folder], tmp_path)


def test_a_task_that_has_no_sentence_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("task_index")
    parquet.write_table(table.set_column(place, "task_index", pa.array([-1] * 6)), path)
    with pytest.raises(BadOption, match="names a task_index that meta/tasks.parquet lacks"):
        read_dataset([folder], tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "meta/info.json",
        "meta/rpent_box.json",
        "meta/tasks.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "data/chunk-000/file-000.parquet",
        "videos/observation.images.wrist/chunk-000/file-000.mp4",
    ],
)
def test_a_file_that_is_cut_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadOption, match=f"{name} cannot be read"):
        read_dataset([folder], tmp_path)


def test_a_data_file_that_is_gone_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", [Pretended("a", BOWL)])
    (folder / "data" / "chunk-000" / "file-000.parquet").unlink()
    with pytest.raises(BadOption, match=r"file-000.parquet cannot be read"):
        read_dataset([folder], tmp_path)
