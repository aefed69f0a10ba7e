# SPDX-License-Identifier: Apache-2.0
"""What is noticed about a checkpoint before a GPU is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from lingbot_checkpoint import robot_config, statistics, write_checkpoint

from rpent_box.backends.lingbot import BACKEND
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.errors import BadCheckpoint

STATISTICS = "norm_stats/robotwin_eef.json"
ROBOT = "configs/robot_configs/robotwin_eef.yaml"
TRAINING = "lingbotvla_cli.yaml"


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path)


def inspect(folder, **options):
    assert BACKEND.inspect is not None
    return BACKEND.inspect(LingbotOptions(**options), folder, "robotwin")


def test_a_whole_checkpoint_is_described(folder):
    found = inspect(folder, execute_steps=20)
    assert found.facts == {
        "action_horizon": "50",
        "execute_steps": "20",
        "denoising_steps": "10",
        "normalisation": "bounds_99",
    }
    paths = {str(Path(file.path).relative_to(folder)) for file in found.files}
    assert paths == {
        "config.json",
        TRAINING,
        STATISTICS,
        ROBOT,
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        *(
            f"qwen_base/{name}.json"
            for name in ("config", "preprocessor_config", "tokenizer_config", "tokenizer")
        ),
    }
    assert all(Path(file.path).is_absolute() for file in found.files)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("config.json", "config"),
        (TRAINING, "training config"),
        (STATISTICS, "statistics"),
        (ROBOT, "robot config"),
        ("qwen_base/config.json", "Qwen2.5-VL files"),
        ("qwen_base/preprocessor_config.json", "Qwen2.5-VL files"),
        ("qwen_base/tokenizer.json", "Qwen2.5-VL files"),
    ],
)
def test_a_missing_file_is_named(folder, name, role):
    (folder / name).unlink()
    with pytest.raises(BadCheckpoint, match=f"has no {role}"):
        inspect(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "preprocessor_config.json"])
def test_a_cut_file_of_qwen_s_is_refused(folder, name):
    (folder / "qwen_base" / name).write_text('{"version": "1.0", "trunc')
    with pytest.raises(BadCheckpoint, match=f"Qwen2.5-VL files .*{name} is not JSON"):
        inspect(folder)


def test_another_platform_is_refused(folder):
    with pytest.raises(BadCheckpoint, match="no adapter for libero"):
        BACKEND.inspect(LingbotOptions(), folder, "libero")


@pytest.mark.parametrize("there", [False, True])
def test_an_empty_folder_and_none_at_all_are_refused(tmp_path, there):
    with pytest.raises(BadCheckpoint):
        inspect(tmp_path if there else tmp_path / "nowhere")


def test_qwen_s_files_may_lie_elsewhere(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("other") / "qwen"
    (folder / "qwen_base").rename(elsewhere)
    with pytest.raises(BadCheckpoint) as caught:
        inspect(folder)
    assert "--qwen-path" in caught.value.hint
    found = inspect(folder, qwen_path=str(elsewhere))
    assert str(elsewhere / "config.json") in {file.path for file in found.files}


def test_a_program_that_qwen_s_files_name_is_refused_wherever_it_is(folder):
    named = {"auto_map": {"AutoProcessor": "somebody/else--processing.Processor"}}
    (folder / "qwen_base/preprocessor_config.json").write_text(json.dumps(named))
    with pytest.raises(BadCheckpoint, match=r"names a program.*somebody/else") as caught:
        inspect(folder)
    assert "preprocessor_config.json" in caught.value.message


def test_a_program_among_qwen_s_files_is_refused_since_loading_would_run_it(folder):
    (folder / "qwen_base/processing.py").write_text("print('here')")
    with pytest.raises(BadCheckpoint, match="is a program"):
        inspect(folder)


def test_a_cut_shard_is_refused(folder):
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        inspect(folder)


def test_a_missing_shard_is_noticed_by_the_index(folder):
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match="layer.2 is in model-00002.*that file is missing"):
        inspect(folder)


def test_a_shard_of_another_model_is_noticed_by_the_index(folder):
    other = (folder / "model-00001-of-00002.safetensors").read_bytes()
    (folder / "model-00002-of-00002.safetensors").write_bytes(other)
    with pytest.raises(BadCheckpoint, match="layer.2 is in .*it is not"):
        inspect(folder)


def test_one_file_of_weights_needs_no_index(folder):
    (folder / "model.safetensors.index.json").unlink()
    inspect(folder)


def test_more_steps_than_the_model_predicts_are_refused(tmp_path):
    folder = write_checkpoint(tmp_path, horizon=25)
    with pytest.raises(BadCheckpoint, match="predicts 25 steps, and 50") as caught:
        inspect(folder)
    assert caught.value.hint.endswith("--execute-steps 25")
    assert inspect(folder, execute_steps=25).facts["action_horizon"] == "25"


@pytest.mark.parametrize(
    "config", [{}, {"chunk_size": 50, "n_action_steps": 25}, {"chunk_size": "50"}]
)
def test_a_config_without_a_clear_horizon_is_refused(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadCheckpoint, match="how many steps the model predicts"):
        inspect(folder)


def test_the_training_config_may_hold_the_horizon(folder):
    (folder / "config.json").write_text("{}")
    change_yaml(folder / TRAINING, lambda training: training["model"].update(chunk_size=50))
    assert inspect(folder).facts["action_horizon"] == "50"


@pytest.mark.parametrize("section", ["model", "train"])
def test_a_training_config_without_its_sections_is_refused(folder, section):
    change_yaml(folder / TRAINING, lambda training: training.pop(section))
    with pytest.raises(BadCheckpoint, match=f"no section {section}"):
        inspect(folder)


@pytest.mark.parametrize("norm_type", ["quantile", None])
def test_a_normalisation_that_the_package_does_not_know_is_refused(folder, norm_type):
    change_yaml(folder / TRAINING, lambda training: training["data"].update(norm_type=norm_type))
    with pytest.raises(BadCheckpoint, match="norm_type"):
        inspect(folder)


@pytest.mark.parametrize("norm_type", ["meanstd", "bounds_99", "minmax", "identity"])
def test_every_normalisation_of_the_package_is_known(folder, norm_type):
    change_yaml(folder / TRAINING, lambda training: training["data"].update(norm_type=norm_type))
    assert inspect(folder).facts["normalisation"] == norm_type


def test_statistics_of_another_robot_are_refused(folder):
    change_statistics(folder, "action.arm.position", "q99", [1.0] * 12)
    with pytest.raises(BadCheckpoint, match=r"action.arm.position.q99 .* has 12 .*wanted 14"):
        inspect(folder)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("q01", [float("nan")] * 2, "nan in column 0"),
        ("q01", [2.0, -1.0], "is above .* in column 0"),
        ("mean", "nothing", "not a list of numbers"),
    ],
)
def test_statistics_that_cannot_be_right_are_refused(folder, name, value, complaint):
    change_statistics(folder, "observation.state.effector.position", name, value)
    with pytest.raises(BadCheckpoint, match=complaint):
        inspect(folder)


def test_statistics_of_a_missing_feature_are_named(folder):
    whole = statistics()
    del whole["norm_stats"]["action.effector.position"]
    (folder / STATISTICS).write_text(json.dumps(whole))
    with pytest.raises(BadCheckpoint, match="has no norm_stats.action.effector.position"):
        inspect(folder)


def qpos14(config):
    for side in ("states", "actions"):
        for entry, spans in zip(config[side], (((0, 6), (7, 13)), ((6, 7), (13, 14))), strict=True):
            ((_, settings),) = entry.items()
            for key, (start, end) in zip(settings["origin_keys"], spans, strict=True):
                next(iter(key.values())).update(start=start, end=end)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (qpos14, "wanted each of 0 to 15 once"),
        (lambda config: config["actions"].pop(), "wanted each of 0 to 15 once"),
        (lambda config: config["states"].append(config["states"][0]), "once"),
        (lambda config: config["images"].pop(), "looks through"),
        (lambda config: config["images"].append("observation.images.cam_front"), "cam_front"),
        (lambda config: config.pop("states"), r"takes the columns \[\]"),
        (lambda config: config["states"].append(["a", "list"]), "among its states"),
        (
            lambda config: config["states"][0].update(
                {"observation.state.arm.position": {"origin_keys": [{"other": {"start": 0}}]}}
            ),
            "wanted columns of observation.state",
        ),
    ],
)
def test_a_config_of_another_robot_is_refused(folder, change, complaint):
    config = robot_config()
    change(config)
    (folder / ROBOT).write_text(yaml.safe_dump(config))
    with pytest.raises(BadCheckpoint, match=complaint):
        inspect(folder)


def test_a_camera_may_go_by_its_own_name(folder):
    config = robot_config()
    config["images"] = [next(iter(entry.values()))["origin_keys"] for entry in config["images"]]
    (folder / ROBOT).write_text(yaml.safe_dump(config))
    inspect(folder)


def change_yaml(path, change):
    value = yaml.safe_load(path.read_text())
    change(value)
    path.write_text(yaml.safe_dump(value))


def change_statistics(folder, feature, name, value):
    whole = statistics()
    whole["norm_stats"][feature][name] = value
    (folder / STATISTICS).write_text(json.dumps(whole))
