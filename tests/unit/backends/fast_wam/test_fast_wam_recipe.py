# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fast_wam_files import model_section, processor

from rpent_box.backends.fast_wam.layout import LIBERO, ROBOTWIN, layout_of, read_processor
from rpent_box.backends.fast_wam.model_section import arguments_of, read_model_section
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import Recipe, read_recipe
from rpent_box.errors import BadCheckpoint, BadOption, UsageError

REFERENCE = """
action_horizon: 32
num_action_chunks: 10
num_inference_steps: 20
binarize_gripper: true
seed: 1
fastwam:
  config_dir: /path/to/FastWAM/configs
  config_name: sim_libero
  overrides: []
"""


def read(
    tmp_path: Path, text: str | dict[str, Any], platform: str = "libero", **more: Any
) -> Recipe:
    path = tmp_path / "worker.yaml"
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    return read_recipe(FastWamOptions(config=str(path), **more), platform)


def robotwin(**changed: Any) -> dict[str, Any]:
    return {
        "model": model_section(),
        "processor": processor("robotwin"),
        "action_horizon": 32,
        "execute_steps": 24,
        "video_size": [384, 320],
        "concat": "robotwin",
        "inference_options": {"num_inference_steps": 10, "seed": 3},
        **changed,
    }


def test_the_reference_configuration_of_libero_is_read(tmp_path: Path) -> None:
    recipe = read(tmp_path, REFERENCE)
    assert (recipe.action_horizon, recipe.execute_steps, recipe.seed) == (32, 10, 1)
    assert recipe.inference.num_inference_steps == 20
    assert recipe.binarize_gripper
    assert recipe.composition.config_dir == "/path/to/FastWAM/configs"
    assert recipe.composition.config_name == "sim_libero"


def test_no_configuration_is_the_reference_one(tmp_path: Path) -> None:
    bare = read_recipe(FastWamOptions(), "libero")
    read_one = read(tmp_path, REFERENCE)
    for field in ("action_horizon", "execute_steps", "seed", "binarize_gripper", "inference"):
        assert getattr(bare, field) == getattr(read_one, field)
    assert bare.composition.config_name == "sim_libero"
    assert bare.source == "built in"


def test_an_empty_mapping_is_a_configuration_too(tmp_path: Path) -> None:
    assert read(tmp_path, "{}").execute_steps == 10


def test_libero_pro_reads_what_libero_reads(tmp_path: Path) -> None:
    assert read(tmp_path, REFERENCE, "libero-pro").is_libero


def test_the_reference_configuration_of_robotwin_is_read(tmp_path: Path) -> None:
    recipe = read(tmp_path, robotwin(), "robotwin")
    assert (recipe.action_horizon, recipe.execute_steps, recipe.seed) == (32, 24, 3)
    assert recipe.model is not None
    assert recipe.model.action_scheduler.infer_shift == 4.0
    assert not recipe.binarize_gripper


def test_robotwin_without_a_configuration_composes_fastwams_own() -> None:
    recipe = read_recipe(FastWamOptions(), "robotwin")
    assert recipe.model is None
    assert recipe.composition.config_name == "sim_robotwin"
    assert recipe.execute_steps == 24


def test_the_option_goes_before_the_configurations_seed(tmp_path: Path) -> None:
    assert read(tmp_path, REFERENCE, seed=9).seed == 9
    assert read(tmp_path, robotwin(), "robotwin", seed=9).seed == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unheard_of: 1", "unheard_of"),
        ("fastwam: {config: x}", "config"),
        ("model_path: /somewhere", "model_path"),
        ("action_horizon: 0", "action_horizon"),
        ("action_horizon: many", "action_horizon"),
        ("num_action_chunks: 33", "33 steps of an action horizon of 32"),
        ("tiled: true", "tiled"),
        ("is_lora: true", "LoRA"),
        ("rand_device: cuda", "rand_device"),
        ("action_dim: 14", "action_dim"),
        ("seed: -1", "seed"),
        ("precision: int8", "precision"),
    ],
)
def test_what_a_libero_worker_cannot_do_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"binarize_gripper": True}, "binarises the gripper, which is LIBERO's"),
        ({"execute_steps": 33}, "33 steps"),
        ({"execute_steps": 0}, "execute_steps"),
        ({"video_size": [224, 448]}, "384, 320"),
        ({"concat": "horizontal"}, "concat"),
        ({"num_action_chunks": 10}, "num_action_chunks"),
        ({"processor": None}, "model and no processor"),
        ({"model": None}, "processor and no model"),
        ({"model": model_section(state=8, action=7)}, "state of 8 and gives actions of 7"),
        ({"model": model_section(_target_="os.system")}, "_target_"),
        ({"model": model_section(surprise=1)}, "surprise"),
        ({"processor": processor("robotwin", surprise=1)}, "surprise"),
        ({"inference_options": {"temperature": 1}}, "temperature"),
    ],
)
def test_what_a_robotwin_worker_cannot_do_is_refused(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        read(tmp_path, robotwin(**changed), "robotwin")


@pytest.mark.parametrize(
    "name", ["prompt", "input_image", "proprio", "context", "context_mask", "action_horizon"]
)
def test_inference_options_never_override_what_was_seen(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadOption, match=f"may not set {name}"):
        read(tmp_path, robotwin(inference_options={name: 1}), "robotwin")


def test_what_may_be_said_is_listed_beside_what_may_not(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as caught:
        read(tmp_path, "unheard_of: 1")
    assert "num_action_chunks" in caught.value.hint


@pytest.mark.parametrize("text", ["- a\n- b\n", "{unfinished", "!!python/object:os.system {}"])
def test_a_file_that_is_no_plain_yaml_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadCheckpoint):
        read(tmp_path, text)


def test_rlinf_serves_libero_alone() -> None:
    assert read_recipe(FastWamOptions(integration="rlinf"), "libero").is_libero
    with pytest.raises(BadOption, match="RLinf"):
        read_recipe(FastWamOptions(integration="rlinf"), "robotwin")


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_that_no_generator_takes_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="seed"):
        read_recipe(FastWamOptions(seed=seed), "libero")


def layout(platform: str = "libero", *, size: tuple[int, int] | None = None, **changed: Any) -> Any:
    known = ROBOTWIN if platform == "robotwin" else LIBERO
    return layout_of(
        read_processor(processor(platform, **changed), "test"),
        platform,
        video_size=size or known.video_size,
        concat=known.concat,
        source="test",
    )


def test_fastwams_own_processors_give_the_known_layouts() -> None:
    assert layout("libero") == LIBERO
    assert layout("robotwin") == ROBOTWIN


def test_an_exception_for_one_part_changes_only_its_normalisation() -> None:
    found = layout(norm_exception_mode={"action": {"default": "-1/1"}})
    assert (found.state_mode, found.action_mode) == ("min/max", "-1/1")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"use_stepwise_action_norm": True}, "step by step"),
        ({"action_state_transforms": [{"_target_": "x"}]}, "transforms"),
        ({"norm_default_mode": "mean"}, "mean"),
        ({"norm_default_mode": "1/2/3"}, "1/2/3"),
        ({"num_output_cameras": 1}, "1 of 2 cameras"),
        ({"proprio_output_dim": 14}, "8, 14 numbers"),
        ({"action_output_dim": 14}, "7, 14 numbers"),
    ],
)
def test_a_processor_that_this_adapter_cannot_follow_is_refused(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        layout(**changed)


def test_several_state_keys_are_refused() -> None:
    shapes = processor()["shape_meta"]
    shapes["state"] = [
        {"key": "arm", "raw_shape": 6, "shape": 6},
        {"key": "hand", "raw_shape": 2, "shape": 2},
    ]
    with pytest.raises(BadOption, match=r"several state keys \(arm, hand\)"):
        layout(shape_meta=shapes)


def test_a_processor_of_the_other_robot_is_refused() -> None:
    with pytest.raises(BadOption, match="14 numbers; libero has 8"):
        layout_of(
            read_processor(processor("robotwin"), "test"),
            "libero",
            video_size=(384, 320),
            concat="robotwin",
            source="test",
        )


@pytest.mark.parametrize(
    ("size", "said"), [((224, 224), "make"), ((448, 224), "make"), ((200, 400), "make")]
)
def test_a_picture_that_the_cameras_do_not_make_is_refused(
    size: tuple[int, int], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        layout(size=size)


def test_a_picture_that_the_vae_cannot_halve_four_times_is_refused() -> None:
    shapes = processor()["shape_meta"]
    for camera in shapes["images"]:
        camera["shape"] = [3, 100, 100]
    with pytest.raises(BadOption, match="divide by 16"):
        layout(shape_meta=shapes, size=(100, 200))


def test_the_model_section_becomes_fastwams_own_arguments() -> None:
    section = read_model_section(model_section(8, 7), "libero", "test")
    arguments = arguments_of(section, converted=False)
    assert arguments["redirect_common_files"] is False
    assert arguments["load_text_encoder"] is True
    assert arguments["skip_dit_load_from_pretrain"] is True
    assert arguments["action_infer_shift"] == 4.0
    assert arguments["video_dit_config"]["hidden_dim"] == 3072
    assert "_target_" not in arguments


def test_fastwams_other_models_are_refused() -> None:
    section = model_section(8, 7, _target_="fastwam.runtime.create_fastwam_joint")
    with pytest.raises(BadOption, match="create_fastwam_joint"):
        read_model_section(section, "libero", "test")
