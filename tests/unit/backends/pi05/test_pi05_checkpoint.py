# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from pi05_parts import (
    EMBEDDING,
    FULL_SIZE,
    STATISTICS,
    TOKENIZER,
    write_checkpoint,
    write_tokenizer,
    write_weights,
)

from rpent_box.backends.pi05.checkpoint import inspect
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.errors import BadCheckpoint, BadOption


def look(folder: Path, **options: object) -> Inspection:
    return inspect(Pi05Options(**options), folder, "libero")  # type: ignore[arg-type]


def test_every_file_that_decides_the_actions_is_named(tmp_path: Path) -> None:
    found = look(write_checkpoint(tmp_path))
    assert {file.role: file.path for file in found.files} == {
        "weights": str(tmp_path / "model.safetensors"),
        "statistics": str(tmp_path / STATISTICS),
        "tokenizer": str(tmp_path / TOKENIZER),
    }
    assert found.facts["action_horizon"] == "10"
    assert found.facts["execute_steps"] == "5"
    assert found.facts["normalisation"] == "q01/q99"
    assert found.facts["tokenizer_pieces"] == "300"
    assert found.suites == ()


def test_rlinfs_layout_has_the_statistics_beside_the_weights(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "assets/physical-intelligence").rename(tmp_path / "physical-intelligence")
    statistics = next(file for file in look(tmp_path).files if file.role == "statistics")
    assert statistics.path == str(tmp_path / "physical-intelligence/libero/norm_stats.json")


def test_statistics_of_another_name_are_found_by_it_and_named_when_not(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "assets/physical-intelligence").rename(tmp_path / "assets/ours")
    assert look(tmp_path, asset_id="ours/libero").facts["asset_id"] == "ours/libero"
    with pytest.raises(BadCheckpoint, match="there is assets/ours/libero/norm_stats.json"):
        look(tmp_path)


@pytest.mark.parametrize("whole", [True, False])
def test_statistics_may_lie_elsewhere(tmp_path: Path, whole: bool) -> None:
    write_checkpoint(tmp_path / "checkpoint")
    place = (tmp_path / "checkpoint" / STATISTICS).rename(tmp_path / "norm_stats.json")
    found = look(tmp_path / "checkpoint", norm_stats=str(place if whole else tmp_path))
    assert str(place) in {file.path for file in found.files}


@pytest.mark.parametrize("given", ["cache", "cache/big_vision", TOKENIZER])
def test_the_tokenizer_may_lie_in_openpis_download_cache(tmp_path: Path, given: str) -> None:
    write_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "cache").mkdir()
    (tmp_path / "checkpoint/big_vision").rename(tmp_path / "cache/big_vision")
    place = tmp_path / (f"cache/{given}" if given == TOKENIZER else given)
    found = look(tmp_path / "checkpoint", tokenizer=str(place))
    assert str(tmp_path / "cache" / TOKENIZER) in {file.path for file in found.files}


def test_a_missing_tokenizer_is_asked_for_by_its_option(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / TOKENIZER).unlink()
    with pytest.raises(BadCheckpoint, match="OPENPI_DATA_HOME"):
        look(tmp_path)


def test_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**FULL_SIZE, EMBEDDING: (299, 2048)})
    with pytest.raises(BadCheckpoint, match="has 300 pieces; the weights embed 299"):
        look(tmp_path)


def test_the_embedding_goes_by_either_of_its_names(tmp_path: Path) -> None:
    tensors = {name: shape for name, shape in FULL_SIZE.items() if name != EMBEDDING}
    write_checkpoint(tmp_path, tensors)
    with pytest.raises(BadCheckpoint, match="embed no words"):
        look(tmp_path)
    other = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
    write_weights(tmp_path / "model.safetensors", {**tensors, other: (257_152, 2048)})
    assert look(tmp_path).facts["config"] == "pi05_libero"


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"no model\.safetensors"):
        look(tmp_path)
    with pytest.raises(BadCheckpoint, match="not there"):
        look(tmp_path / "nowhere")


def test_the_file_in_place_of_its_folder_is_told(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(BadCheckpoint, match="not the file itself"):
        look(tmp_path / "model.safetensors")


def test_jax_weights_are_told_how_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    with pytest.raises(BadCheckpoint, match=r"convert_jax_model_to_pytorch\.py"):
        look(tmp_path)


def test_cut_weights_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    weights = tmp_path / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size - 1)
    with pytest.raises(BadCheckpoint, match="cut"):
        look(tmp_path)


def test_weights_of_pi0_are_refused(tmp_path: Path) -> None:
    tensors = {name: shape for name, shape in FULL_SIZE.items() if "time_mlp" not in name}
    write_checkpoint(tmp_path, {**tensors, "state_proj.weight": (1024, 32)})
    with pytest.raises(BadCheckpoint, match=r"Pi0's, not Pi0\.5's"):
        look(tmp_path)


def test_weights_in_lerobots_layout_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {f"model.{name}": shape for name, shape in FULL_SIZE.items()})
    with pytest.raises(BadCheckpoint, match="LeRobot"):
        look(tmp_path)


def test_weights_with_the_heads_of_further_training_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**FULL_SIZE, "value_head.mlp.0.weight": (1024, 1024)})
    with pytest.raises(BadCheckpoint, match="does not have: value_head"):
        look(tmp_path)
    own = tmp_path / "own.py"
    own.write_text("CONFIGS = []\n")
    assert look(tmp_path, config_file=str(own)).facts["config"] == "pi05_libero"


def test_weights_of_something_else_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"blocks.0.weight": (3, 3)})
    with pytest.raises(BadCheckpoint, match=r"no action_in_proj\.weight"):
        look(tmp_path)


def test_weights_of_another_size_want_their_configuration(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**FULL_SIZE, "time_mlp_in.weight": (64, 64)})
    with pytest.raises(BadCheckpoint, match=r"shape \[64, 64\]; .* \[1024, 1024\]"):
        look(tmp_path)
    own = tmp_path / "own.py"
    own.write_text("CONFIGS = []\n")
    found = look(tmp_path, config_file=str(own), config_name="ours")
    assert str(own) in {file.path for file in found.files}
    assert found.facts["config"] == "ours"


def test_more_steps_than_the_model_predicts_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(BadOption, match="--execute-steps 11 is more than pi05_libero predicts: 10"):
        look(tmp_path, execute_steps=11)
    assert look(tmp_path, execute_steps=10).facts["execute_steps"] == "10"


def test_an_unknown_configuration_wants_its_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(BadOption, match="pi05_droid is none of them"):
        look(tmp_path, config_name="pi05_droid")
    with pytest.raises(BadCheckpoint, match="configuration .* is not there"):
        look(tmp_path, config_file=str(tmp_path / "own.py"))


def test_statistics_of_another_robot_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    document = json.loads((tmp_path / STATISTICS).read_text())
    document["norm_stats"]["actions"]["q99"][1] = 3.0
    (tmp_path / STATISTICS).write_text(json.dumps(document))
    with pytest.raises(BadCheckpoint, match="another robot's"):
        look(tmp_path)


def test_a_vocabulary_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    write_tokenizer(tmp_path / TOKENIZER, 1)
    (tmp_path / TOKENIZER).write_bytes(b"{}")
    with pytest.raises(BadCheckpoint, match="sentencepiece"):
        look(tmp_path)
