# SPDX-License-Identifier: Apache-2.0
"""What the plugin declares, on a machine without the simulator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from rpent_box.backends.rldx.adapter import ADAPTERS
from rpent_box.backends.rldx.names import past_role as wanted_past_role
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import BadOption, UnknownName
from rpent_box.options import parse_options, path_fields
from rpent_box.sim.platform import Scene
from rpent_box_robocasa import PLATFORM
from rpent_box_robocasa.plugin import RobocasaOptions
from rpent_box_robocasa.roles import STEPS_AGO, VIEWS, past_role
from rpent_box_robocasa.seeds import scene_seed
from rpent_box_robocasa.suites import SUITES, find_suite, task_of

SCENE = Scene(suite="atomic_seen", task=6, init_state=3, seed=7)


def test_importing_the_plugin_imports_no_simulator() -> None:
    program = (
        "import sys, rpent_box_robocasa\n"
        "print(sorted({'robosuite', 'robocasa', 'mujoco', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_benchmarks_fifty_tasks_are_three_suites() -> None:
    sizes = {suite.name: len(suite.tasks) for suite in SUITES}
    assert sizes == {
        "atomic_seen": 18,
        "composite_seen": 16,
        "composite_unseen": 16,
        "all_atomic_tasks": 65,
        "all_composite_tasks": 252,
    }
    assert PLATFORM.default_suite == "atomic_seen"
    assert "317 tasks" in PLATFORM.summary


def test_each_task_has_its_own_limit() -> None:
    suite = find_suite("atomic_seen")
    limits = dict(zip(suite.tasks, suite.task_max_steps, strict=True))
    assert limits["OpenDrawer"] == 750
    assert limits["NavigateKitchen"] == 450
    assert suite.max_steps == max(suite.task_max_steps)


def test_a_task_has_the_same_limit_in_every_suite() -> None:
    limits: dict[str, int] = {}
    for suite in SUITES:
        for task, limit in zip(suite.tasks, suite.task_max_steps, strict=True):
            assert limits.setdefault(task, limit) == limit, task


def test_a_task_is_found_by_its_number_and_no_other_is_guessed() -> None:
    assert task_of(SCENE) == "OpenDrawer"
    for task in (-1, 18):
        with pytest.raises(UnknownName, match=f"no task {task}; its tasks are 0 to 17"):
            task_of(replace(SCENE, task=task))
    with pytest.raises(UnknownName, match="no suite called kitchen"):
        task_of(replace(SCENE, suite="kitchen"))


def test_a_number_beyond_the_last_is_refused_before_anything_starts() -> None:
    assert PLATFORM.require_scenes is not None
    last = replace(SCENE, init_state=99_999)
    PLATFORM.require_scenes(RobocasaOptions(), [last])
    with pytest.raises(UnknownName, match="no initial state 100000"):
        PLATFORM.require_scenes(RobocasaOptions(), [last, replace(last, init_state=100_000)])


def test_a_seed_and_a_number_give_a_seed_of_their_own() -> None:
    assert scene_seed(SCENE) == 700_003
    seeds = {
        scene_seed(replace(SCENE, seed=seed, init_state=number))
        for seed in range(3)
        for number in (0, 1, 99_999)
    }
    assert len(seeds) == 9
    for number in (-1, 100_000):
        with pytest.raises(UnknownName, match=f"no initial state {number}"):
            scene_seed(replace(SCENE, init_state=number))


def test_the_frames_of_now_come_first_and_each_camera_has_three_of_before() -> None:
    roles = list(VIEWS)
    assert roles[:3] == ["agentview_left", "agentview_right", "wrist"]
    assert len(roles) == 3 * (1 + len(STEPS_AGO)) == 12
    assert VIEWS["wrist_4_steps_ago"] == ("robot0_eye_in_hand", 4)


@pytest.mark.parametrize("steps", [0, *STEPS_AGO])
def test_rldx_calls_earlier_frames_by_the_same_names(steps: int) -> None:
    for role in ("agentview_left", "agentview_right", "wrist"):
        assert past_role(role, steps) == wanted_past_role(role, steps)
        assert past_role(role, steps) in VIEWS


def test_rldx_fits_with_the_frames_that_it_wants() -> None:
    adapter = ADAPTERS["robocasa"]
    roles = tuple(past_role(role, steps) for steps in (6, 4, 2, 0) for role in adapter.camera_roles)
    meta = ModelMeta(
        kind="vla",
        backend="rldx",
        checkpoint="RLDX-1-FT-RC365",
        control=PLATFORM.meta.controls[0],
        camera_roles=roles,
        proprio_schema=adapter.proprio_schema,
        action_horizon=16,
        execute_steps=8,
        uses_sessions=True,
    )
    assert adapter.space == ROBOCASA_12
    assert explain_mismatch(meta, PLATFORM.meta) == []


def test_a_frame_of_five_steps_ago_is_not_offered() -> None:
    assert past_role("wrist", 5) not in PLATFORM.meta.camera_roles


def test_the_assets_folder_is_a_path_and_a_variable_stands_in_for_it() -> None:
    assert path_fields(RobocasaOptions) == ["assets_path"]
    assert PLATFORM.env_fallbacks == {"ROBOCASA_ASSETS_PATH": "assets_path"}


@pytest.mark.parametrize("words", [["--split=test"], ["--layout=61"], ["--image-size=8"]])
def test_options_out_of_range_are_refused(words: list[str]) -> None:
    with pytest.raises(BadOption):
        parse_options(RobocasaOptions, words, program="test")
