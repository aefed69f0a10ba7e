# SPDX-License-Identifier: Apache-2.0
"""Training on a few pretended rows. Needs PyTorch, onnx, pyarrow and PyAV (`rpent-box[train]`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'rpent-box[train]'")
pytest.importorskip("onnx", reason="needs onnx: pip install 'rpent-box[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'rpent-box[train]'")
pytest.importorskip("av", reason="needs av: pip install 'rpent-box[train]'")

import torch
from mini_wam_demonstrations import Pretended, write_folder

from rpent_box.backends.mini_wam import export as exporting
from rpent_box.backends.mini_wam import train as training
from rpent_box.backends.mini_wam.dataset import HELD_OUT_BY, Dataset, read_dataset
from rpent_box.backends.mini_wam.losses import vary_frames, vary_words
from rpent_box.backends.mini_wam.manifest import MANIFEST_FILE, Manifest
from rpent_box.backends.mini_wam.model import GREY, load
from rpent_box.backends.mini_wam.network import downscale
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.backends.mini_wam.rows import Rows
from rpent_box.backends.mini_wam.text import encode_instruction
from rpent_box.backends.mini_wam.validate import validate
from rpent_box.errors import BadCheckpoint, BadOption, RpentBoxError, WorkerFailed
from rpent_box.worker.backend import LoadContext

EPISODES = [
    *(Pretended("bowl", "pick up the bowl", rows=4) for _ in range(17)),
    Pretended("drawer", "open the drawer", rows=4, student_acts=True),
]
ROWS = 4 * len(EPISODES)
RECIPE = training.Recipe(steps=6, batch=4, warmup_steps=2)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("demonstrations")
    return read_dataset([write_folder(folder / "data", EPISODES)], folder)


def train(
    dataset: Dataset,
    out: Path,
    recipe: training.Recipe = RECIPE,
    *,
    begin_with: Path | None = None,
) -> training.TrainingRecord:
    out.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    return training.train(recipe, dataset, out, begin_with=begin_with, save_every=3, log_every=1)


@pytest.fixture(scope="module")
def trained(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("training")
    train(dataset, out)
    return out


def weights_in(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / training.NETWORK_FILE, weights_only=True)
    return state


def test_a_change_is_the_frame_two_rows_on_less_this_one(dataset: Dataset) -> None:
    rows = Rows(dataset)
    batch = rows.batch(np.array([0, 2, 3]), precision=torch.float32)
    assert torch.allclose(batch.now[0] + batch.change[0], batch.now[1], atol=1e-6)
    assert batch.has_future.tolist() == [1.0, 0.0, 0.0]
    assert torch.allclose(batch.now, downscale(batch.frames[:, 0]), atol=1e-6)
    assert 0 <= float(batch.frames.min()) <= float(batch.frames.max()) <= 1


def test_without_a_generator_sentences_are_the_tasks_own(dataset: Dataset) -> None:
    rows = Rows(dataset)
    picked = np.arange(ROWS)
    own = rows.batch(picked, precision=torch.float32).instruction.numpy()
    wanted = [encode_instruction(dataset.sentences[index]) for index in dataset.sentence]
    assert np.array_equal(own, np.stack(wanted))
    rng = np.random.default_rng(0)
    said = rows.batch(picked, precision=torch.float32, rng=rng).instruction.numpy()
    assert 0.2 < (said == own).all(1).mean() < 0.9


def test_blind_rows_are_grey(dataset: Dataset) -> None:
    batch = Rows(dataset, blind=True).batch(np.array([3]), precision=torch.float32)
    assert (batch.frames * 255).round().unique().tolist() == [GREY]


def test_a_run_that_was_stopped_ends_where_an_unbroken_one_ends(
    dataset: Dataset, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = training.Training.advance

    def stopped_at_four(self: training.Training) -> dict[str, float]:
        if self.step == 4:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(training.Training, "advance", stopped_at_four)
        with pytest.raises(KeyboardInterrupt):
            train(dataset, tmp_path)
    assert not (tmp_path / training.NETWORK_FILE).exists()
    train(dataset, tmp_path)
    log = [json.loads(line) for line in (tmp_path / training.LOG_FILE).read_text().splitlines()]
    assert [line["step"] for line in log if line["event"] == "start"] == [0, 3]
    unbroken, broken = weights_in(trained), weights_in(tmp_path)
    assert all(torch.equal(unbroken[name], broken[name]) for name in unbroken)


def test_training_changes_the_weights_and_repeats_with_its_seed(
    dataset: Dataset, trained: Path, tmp_path: Path
) -> None:
    train(dataset, tmp_path, msgspec.structs.replace(RECIPE, seed=1))
    other = weights_in(tmp_path)
    assert not torch.equal(other["act.0.weight"], weights_in(trained)["act.0.weight"])


def test_a_checkpoint_of_other_options_or_data_is_not_gone_on_from_and_they_are_named(
    dataset: Dataset, trained: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / training.CHECKPOINT_FILE
    checkpoint.write_bytes((trained / training.CHECKPOINT_FILE).read_bytes())
    with pytest.raises(BadOption, match="begun with other options or data") as caught:
        train(dataset, tmp_path, msgspec.structs.replace(RECIPE, batch=8, held_out_by="a rule"))
    assert caught.value.message.splitlines()[1:] == ["  batch: 4 → 8", "  held_out_by:  → a rule"]
    (source,) = dataset.sources
    other = msgspec.structs.replace(source, folder="more", sha256="ab" * 32)
    with pytest.raises(BadOption) as caught:
        train(replace(dataset, sources=(source, other)), tmp_path)
    assert caught.value.message.splitlines()[1:] == [
        "  data 2: not there → more (abababababababab…)"
    ]
    with pytest.raises(BadOption) as caught:
        train(replace(dataset, sources=(other,)), tmp_path)
    assert f"data 1: data ({source.sha256[:16]}…) → more (" in caught.value.message
    renamed = msgspec.structs.replace(source, folder="renamed")
    train(replace(dataset, sources=(renamed,)), tmp_path)


def test_a_checkpoint_that_cannot_be_read_is_refused(
    dataset: Dataset, trained: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / training.CHECKPOINT_FILE
    whole = (trained / training.CHECKPOINT_FILE).read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadOption, match="cannot go on from"):
        train(dataset, tmp_path)
    torch.save({"fingerprint": "of an earlier version", "step": 1}, checkpoint)
    with pytest.raises(BadOption, match="of another version: no 'recipe'"):
        train(dataset, tmp_path)


def test_fewer_rows_than_a_batch_takes_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="68 of 72 rows teach, but each step takes 69") as caught:
        train(dataset, tmp_path, msgspec.structs.replace(RECIPE, batch=69))
    assert "--batch" in caught.value.hint
    nothing = replace(dataset, held_out=np.ones(ROWS, bool))
    with pytest.raises(BadOption, match="0 of 72 rows teach"):
        train(nothing, tmp_path)


def test_where_nothing_is_held_out_nothing_is_judged_and_that_is_said(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = msgspec.structs.replace(RECIPE, steps=1)
    record = train(replace(dataset, held_out=np.zeros(ROWS, bool)), tmp_path, short)
    assert record.validation == {}
    assert "No episode of these is held out" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--steps", "--batch", "--threads", "--save-every", "--log-every"])
def test_numbers_below_one_are_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        training.main(["--data", "x", "--out", "y", word, "0"])
    assert "0 is less than 1" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", str(1 << 64)])
def test_a_seed_that_chance_cannot_begin_with_is_refused(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        training.main(["--data", "x", "--out", "y", f"--seed={seed}"])
    assert f"{seed} is no seed" in capsys.readouterr().err


def test_a_training_whose_losses_are_not_finite_ends_and_keeps_what_was_saved(
    dataset: Dataset, tmp_path: Path
) -> None:
    actions = np.full_like(dataset.actions, np.nan)
    with pytest.raises(RpentBoxError, match="losses of step 1 are not finite"):
        train(replace(dataset, actions=actions), tmp_path)
    assert not (tmp_path / training.NETWORK_FILE).exists()


def test_places_are_judged_along_all_three_axes(dataset: Dataset) -> None:
    rows = Rows(dataset)
    network = training.MiniWamNetwork().eval()
    right = rows.batch(rows.held_out, precision=torch.float32).places
    off_m = np.array([0, 0, 0.003, 0, 0.006, 0.006])
    judge = SimpleNamespace(
        think=network.think,
        decide=network.decide,
        progress=network.progress,
        imagine=network.imagine,
        places=lambda thought: right + torch.from_numpy(off_m / rows.places_deviation).float(),
    )
    judged = validate(judge, rows)
    assert judged["thing_axis_error_mm"] == pytest.approx(1, rel=1e-3)
    assert judged["goal_axis_error_mm"] == pytest.approx(4, rel=1e-3)


def test_a_training_may_begin_with_anothers_weights(
    dataset: Dataset, trained: Path, tmp_path: Path
) -> None:
    first = trained / training.NETWORK_FILE
    short = msgspec.structs.replace(RECIPE, steps=1, begins_with="named")
    train(dataset, tmp_path, short, begin_with=first)
    near, far = weights_in(trained), training.MiniWamNetwork().state_dict()
    gone = weights_in(tmp_path)["act.0.weight"]
    assert (gone - near["act.0.weight"]).abs().max() < 3 * RECIPE.learning_rate
    assert (gone - far["act.0.weight"]).abs().max() > 3 * RECIPE.learning_rate


def test_the_command_says_what_it_began_with_and_refuses_what_is_none(
    dataset: Dataset, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--init", str(tmp_path)]
    assert training.main(words) == 1
    assert "wants the --out of a training that has ended" in capsys.readouterr().err
    assert len(training._sha256(trained / training.NETWORK_FILE)) == 64


def test_what_held_out_other_episodes_is_not_begun_with(
    dataset: Dataset, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a training from before the rule had a name has no `held_out_by` in its record."""
    record = json.loads((trained / training.RECORD_FILE).read_bytes())
    del record["recipe"]["held_out_by"]
    (tmp_path / training.RECORD_FILE).write_text(json.dumps(record))
    (tmp_path / training.NETWORK_FILE).write_bytes(b"weights")
    words = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--init", str(tmp_path)]
    assert training.main(words) == 1
    assert "held out episodes by another rule (one without a name" in capsys.readouterr().err
    record["recipe"]["held_out_by"] = HELD_OUT_BY
    (tmp_path / training.RECORD_FILE).write_text(json.dumps(record))
    training.require_same_held_out(tmp_path / training.RECORD_FILE)


def test_the_command_names_the_rule_by_which_episodes_are_held_out(tmp_path: Path) -> None:
    data = write_folder(tmp_path / "data", EPISODES[:4])
    words = ["--data", str(data), "--out", str(tmp_path / "out"), "--steps=1", "--batch=2"]
    assert training.main([*words, "--threads=1"]) == 0
    record = json.loads((tmp_path / "out" / training.RECORD_FILE).read_bytes())
    assert record["recipe"]["held_out_by"] == HELD_OUT_BY
    assert record["validation"]["rows"] == 4.0


def test_the_exported_network_answers_as_the_trained_one(trained: Path, tmp_path: Path) -> None:
    manifest = exporting.export(trained, tmp_path)
    _, network = exporting._read(trained)
    for graph in exporting.graphs(network):
        assert exporting.compare(graph, tmp_path / graph.file) < 1e-5
    written = msgspec.json.decode((tmp_path / MANIFEST_FILE).read_bytes(), type=Manifest)
    assert written == manifest
    assert manifest.data["rows"] == str(ROWS)
    assert manifest.data["rows_by_lesson"] == "bowl 68, drawer 4"
    assert manifest.data["rows_from_students"] == "4"
    assert manifest.instructions == ("open the drawer", "pick up the bowl")


def test_a_network_that_is_not_finite_is_not_exported(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporting.export(trained, tmp_path)
    _, network = exporting._read(trained)
    policy, _ = exporting.graphs(network)
    answer = policy.answer(exporting.example(3))
    last = list(answer)[-1]  # what is compared last: a maximum that passes NaN over would lose it
    nothing = {**answer, last: np.full_like(answer[last], np.nan)}
    monkeypatch.setattr(exporting.Graph, "answer", lambda graph, values: nothing)
    with pytest.raises(WorkerFailed, match="differs from the trained network by nan"):
        exporting.compare(policy, tmp_path / policy.file)


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
    assert float((varied * words).sum(1).min()) > 0.5
