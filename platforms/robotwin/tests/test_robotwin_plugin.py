# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import AssetsMissing, BadOption, UnknownName
from rpent_box.launch.simulator import whole_options
from rpent_box.options import parse_options, path_fields
from rpent_box.plugins import find_platform
from rpent_box.sim.platform import Scene
from rpent_box_robotwin import PLATFORM
from rpent_box_robotwin.plugin import RobotwinOptions


def test_importing_the_plugin_imports_no_simulator() -> None:
    program = (
        "import sys, rpent_box_robotwin, rpent_box_robotwin.assets, rpent_box_robotwin.language\n"
        "heavy = {'robotwin', 'sapien', 'mplib', 'torch', 'cv2', 'yaml', 'trimesh', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_plugin_is_found_by_its_entry_point() -> None:
    assert find_platform("robotwin") is PLATFORM


def test_both_controllers_are_on_offer_and_joints_come_first() -> None:
    assert [control.action_space for control in PLATFORM.meta.controls] == [
        "robotwin.joint_action.qpos14.v1",
        "robotwin.eef_pose.absolute16.v1",
    ]
    assert [control.action_type for control in PLATFORM.meta.controls] == ["qpos", "ee"]


def test_folders_and_files_of_the_options_are_shown_to_its_container() -> None:
    assert path_fields(RobotwinOptions) == ["assets_path", "language"]


def test_the_usual_variable_stands_in_for_the_assets() -> None:
    assert PLATFORM.env_fallbacks == {"ROBOTWIN_ASSETS_PATH": "assets_path"}


def test_a_misspelt_wording_is_refused() -> None:
    with pytest.raises(BadOption, match="wording"):
        parse_options(RobotwinOptions, ["--wording=new"], program="robotwin")


def test_nothing_starts_without_assets() -> None:
    assert PLATFORM.require is not None
    with pytest.raises(AssetsMissing, match="robotwin-download-assets"):
        PLATFORM.require(RobotwinOptions())


def test_a_bad_list_of_instructions_is_named_before_the_assets(tmp_path: Path) -> None:
    path = tmp_path / "instructions.jsonl"
    path.write_text('{"task": "stack_blocks_two"}\n')
    assert PLATFORM.require is not None
    with pytest.raises(BadOption, match="line 1"):
        PLATFORM.require(RobotwinOptions(language=str(path)))


def test_a_model_that_moves_a_single_arm_does_not_fit() -> None:
    model = ModelMeta(
        kind="vla",
        backend="toy",
        checkpoint="built-in",
        control=control_spec(LIBERO_OSC_DELTA),
        camera_roles=("primary",),
        proprio_schema={"joint_targets": 7},
        action_horizon=10,
        execute_steps=10,
    )
    reasons = " ".join(explain_mismatch(model, PLATFORM.meta))
    assert "libero.osc_pose.delta.v1" in reasons
    assert "primary" in reasons
    assert "14 numbers, the model wants 7" in reasons


def test_a_task_without_its_objects_and_a_scene_without_a_sentence_are_refused(
    tmp_path: Path,
) -> None:
    assert PLATFORM.require_scenes is not None
    root = tmp_path / "root"
    for part in ("embodiments/aloha-agilex", "objects", "background_texture"):
        (root / "assets" / part).mkdir(parents=True)
    robot = root / "assets" / "embodiments" / "aloha-agilex"
    (robot / "config.yml").write_text("urdf_path: robot.urdf\n")
    (robot / "robot.urdf").touch()
    blocks = Scene(suite="demo_clean", task=_index("stack_blocks_two"), init_state=100000, seed=7)
    shoe = replace(blocks, task=_index("place_shoe"))
    options = RobotwinOptions(assets_path=str(root))
    PLATFORM.require_scenes(options, [blocks])
    with pytest.raises(AssetsMissing, match="place_shoe of demo_clean needs assets/objects/041_"):
        PLATFORM.require_scenes(options, [blocks, shoe])
    listed = tmp_path / "listed.jsonl"
    listed.write_text('{"task": "stack_blocks_two", "seed": 100000, "instruction": "stack"}\n')
    options = replace(options, language=str(listed))
    PLATFORM.require_scenes(options, [blocks])
    with pytest.raises(UnknownName, match="no instruction for stack_blocks_two with .* 100001"):
        PLATFORM.require_scenes(options, [blocks, replace(blocks, init_state=100001)])


def _index(task: str) -> int:
    return PLATFORM.suites[0].tasks.index(task)


def test_a_folder_that_is_not_there_comes_with_the_command_that_makes_it() -> None:
    with pytest.raises(BadOption, match="no file or folder at /nowhere") as caught:
        whole_options(PLATFORM, ["--assets-path=/nowhere"])
    assert "--robotwin-assets-path PATH" in caught.value.hint
    assert "robotwin-download-assets" in caught.value.hint
