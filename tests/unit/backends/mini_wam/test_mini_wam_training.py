# SPDX-License-Identifier: Apache-2.0
"""Training on a few pretended rows. Needs PyTorch and onnx (`rpent-box[train]`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mini_wam_parts import INSTRUCTION
from numpy.typing import NDArray

pytest.importorskip("torch", reason="training needs PyTorch: pip install 'rpent-box[train]'")
pytest.importorskip("onnx", reason="exporting needs onnx: pip install 'rpent-box[train]'")

import torch

from rpent_box.backends.mini_wam import export as exporting
from rpent_box.backends.mini_wam import train as training
from rpent_box.backends.mini_wam.dataset import read_dataset
from rpent_box.backends.mini_wam.losses import vary_frames, vary_words
from rpent_box.backends.mini_wam.manifest import MANIFEST_FILE, Manifest
from rpent_box.backends.mini_wam.model import load
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.backends.mini_wam.rows import Rows
from rpent_box.errors import BadCheckpoint, BadOption
from rpent_box.worker.backend import LoadContext

ROWS = 24
RECIPE = training.Recipe(steps=6, batch=4, warmup_steps=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two shards; the second one holds the held-out episode 16."""
    folder = tmp_path_factory.mktemp("demonstrations")
    for number, first_episode in enumerate((0, 16)):
        write_shard(folder / f"{number}.npz", number, first_episode)
    return folder


def write_shard(path: Path, seed: int, first_episode: int) -> None:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.normal(size=(ROWS, *shape)).astype(np.float32)

    frames = rng.integers(0, 256, (2, ROWS, 128, 128, 3), dtype=np.uint8)
    following = np.arange(1, ROWS + 1)
    following[5::6] = -1
    header = {"instruction": INSTRUCTION, "suite": "s", "task": 0, "seed": seed, "episodes": 4}
    np.savez(
        path,
        header=json.dumps({**header, "student": ""}),
        image_primary=frames[0],
        image_wrist=frames[1],
        eef_position=normal(3),
        eef_quaternion_xyzw=normal(4),
        gripper_qpos=normal(2),
        actions=np.clip(normal(10, 7), -1, 1),
        thing_position=normal(3),
        goal_position=normal(3),
        progress=rng.random(ROWS, np.float32),
        next_row=following,
        episode=first_episode + np.arange(ROWS) // 6,
        student_acts=np.zeros(ROWS, bool),
    )


def train(data: Path, out: Path, recipe: training.Recipe = RECIPE) -> training.TrainingRecord:
    out.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    return training.train(recipe, [data], out, save_every=3, log_every=1)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("training")
    train(data, out)
    return out


def weights_in(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / training.NETWORK_FILE, weights_only=True)
    return state


def test_rows_of_all_shards_are_linked_across_files(data: Path) -> None:
    dataset = read_dataset([data])
    assert len(dataset.actions) == 2 * ROWS
    assert dataset.next_row[ROWS] == ROWS + 1
    assert dataset.next_row[ROWS - 1] == -1
    assert dataset.instructions == (INSTRUCTION,)
    assert np.flatnonzero(dataset.held_out).tolist() == list(range(ROWS, ROWS + 6))


def test_held_out_rows_decide_no_statistics(data: Path) -> None:
    dataset = read_dataset([data])
    taught = dataset.proprio[~dataset.held_out]
    statistics = dataset.statistics()
    assert statistics.proprio_mean == pytest.approx(taught.mean(0), abs=1e-5)
    assert statistics.proprio_deviation == pytest.approx(taught.std(0), abs=1e-5)


def test_a_folder_without_demonstrations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"no demonstrations"):
        read_dataset([tmp_path])


def test_a_change_is_the_next_rows_frame_less_this_ones(data: Path) -> None:
    rows = Rows(read_dataset([data]))
    batch = rows.batch(np.array([0, 1, 5]), precision=torch.float32)
    assert torch.allclose(batch.now[0] + batch.change[0], batch.now[1], atol=1e-6)
    assert batch.has_future.tolist() == [1.0, 1.0, 0.0]


def test_blind_rows_are_grey(data: Path) -> None:
    batch = Rows(read_dataset([data]), blind=True).batch(np.array([3]), precision=torch.float32)
    assert batch.frames.unique().numel() == 1


def test_a_run_that_was_stopped_ends_where_an_unbroken_one_ends(
    data: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = training.Training.advance

    def stopped_at_four(self: training.Training) -> dict[str, float]:
        if self.step == 4:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(training.Training, "advance", stopped_at_four)
        with pytest.raises(KeyboardInterrupt):
            train(data, tmp_path)
    assert not (tmp_path / training.NETWORK_FILE).exists()
    train(data, tmp_path)
    log = [json.loads(line) for line in (tmp_path / training.LOG_FILE).read_text().splitlines()]
    assert [line["step"] for line in log if line["event"] == "start"] == [0, 3]
    unbroken, broken = weights_in(trained), weights_in(tmp_path)
    assert all(torch.equal(unbroken[name], broken[name]) for name in unbroken)


def test_training_changes_the_weights_and_repeats_with_its_seed(
    data: Path, trained: Path, tmp_path: Path
) -> None:
    train(data, tmp_path, msgspec.structs.replace(RECIPE, seed=1))
    other = weights_in(tmp_path)
    assert not torch.equal(other["act.0.weight"], weights_in(trained)["act.0.weight"])


def test_a_checkpoint_of_another_recipe_is_not_gone_on_from(
    data: Path, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / training.CHECKPOINT_FILE).write_bytes(
        (trained / training.CHECKPOINT_FILE).read_bytes()
    )
    with pytest.raises(BadOption, match="another recipe"):
        train(data, tmp_path, msgspec.structs.replace(RECIPE, batch=8))


def test_the_exported_network_answers_as_the_trained_one(trained: Path, tmp_path: Path) -> None:
    manifest = exporting.export(trained, tmp_path)
    _, network = exporting._read(trained)
    for graph in exporting.graphs(network):
        assert exporting.compare(graph, tmp_path / graph.file) < 1e-5
    written = msgspec.json.decode((tmp_path / MANIFEST_FILE).read_bytes(), type=Manifest)
    assert written == manifest
    assert manifest.data["rows"] == str(2 * ROWS)


def test_an_exported_checkpoint_loads_and_other_statistics_do_not(
    trained: Path, tmp_path: Path
) -> None:
    exporting.export(trained, tmp_path)
    context = LoadContext(
        platform="libero", checkpoint=str(tmp_path), threads=1, say=lambda phase: None
    )
    assert load(MiniWamOptions(), context).meta.checkpoint == tmp_path.name
    path = tmp_path / MANIFEST_FILE
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    other = msgspec.structs.replace(manifest.statistics, proprio_mean=(9.0,) * 9)
    path.write_bytes(
        msgspec.json.encode(
            msgspec.structs.replace(manifest, statistics=other, statistics_sha256=other.sha256())
        )
    )
    with pytest.raises(BadCheckpoint, match="trained with statistics"):
        load(MiniWamOptions(), context)


def test_an_unfinished_training_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no finished training"):
        exporting.export(tmp_path, tmp_path)


def test_the_fixed_camera_is_not_shifted() -> None:
    frames = torch.zeros(2, 2, 3, 128, 128)
    frames[:, :, :, 60:68, 60:68] = 100.0
    for seed in range(8):
        varied = vary_frames(frames.clone(), torch.Generator().manual_seed(seed))
        bright = (varied[0, 0, 0].abs() > 30).nonzero()
        assert bright.min(0).values.tolist() == [60, 60]
        assert bright.max(0).values.tolist() == [67, 67]


def test_most_instructions_stay_and_all_keep_their_length() -> None:
    words = torch.nn.functional.normalize(torch.randn(400, 512), dim=1)
    varied = vary_words(words, torch.Generator().manual_seed(0))
    kept = (varied == words).all(1).float().mean()
    assert 0.7 < float(kept) < 0.9
    assert torch.allclose(varied.norm(dim=1), torch.ones(400), atol=1e-5)
