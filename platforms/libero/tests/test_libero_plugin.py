# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.meta import ModelMeta
from rpent_box.plugins import find_platform
from rpent_box_libero import PLATFORM
from rpent_box_libero.suites import find_suite

FIELD = {
    "libero_spatial": (10, 220),
    "libero_object": (10, 280),
    "libero_goal": (10, 300),
    "libero_10": (10, 520),
    "libero_90": (90, 400),
}


def test_importing_the_plugin_imports_no_simulator() -> None:
    program = (
        "import sys, rpent_box_libero\n"
        "heavy = {'libero', 'mujoco', 'robosuite', 'OpenGL', 'numba', 'cv2', 'torch', 'av'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_plugin_is_found_by_its_entry_point() -> None:
    assert find_platform("libero") is PLATFORM


def test_the_five_suites_have_the_fields_sizes_and_step_limits() -> None:
    found = {suite.name: (len(suite.tasks), suite.max_steps) for suite in PLATFORM.suites}
    assert found == FIELD
    assert {suite.init_states for suite in PLATFORM.suites} == {50}
    assert PLATFORM.default_suite in FIELD


def test_task_names_are_unique_within_a_suite() -> None:
    for suite in PLATFORM.suites:
        assert len(set(suite.tasks)) == len(suite.tasks)
    assert find_suite("libero_spatial").tasks[0] == (
        "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate"
    )


def test_a_model_of_another_action_space_does_not_fit() -> None:
    control = PLATFORM.meta.controls[0]
    model = ModelMeta(
        kind="vla",
        backend="toy",
        checkpoint="built-in",
        control=control,
        camera_roles=("primary", "head"),
        proprio_schema={"joint_positions": 14},
        action_horizon=10,
        execute_steps=10,
    )
    reasons = explain_mismatch(model, PLATFORM.meta)
    assert len(reasons) == 2
    assert "head" in reasons[0]
    assert "7 numbers, the model wants 14" in reasons[1]
