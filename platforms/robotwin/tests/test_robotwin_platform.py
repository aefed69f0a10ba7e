# SPDX-License-Identifier: Apache-2.0
"""What is RoboTwin's own about the platform; the rest is asked of every platform alike."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.observation import Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA, ROBOTWIN_EEF16, ROBOTWIN_QPOS14
from rpent_box.errors import (
    AssetsMissing,
    BadActions,
    BadOption,
    IncompatibleWorker,
    SimulatorError,
    UnknownName,
)
from rpent_box.sim.platform import ModelNeeds, Scene
from rpent_box_robotwin import PLATFORM
from rpent_box_robotwin.observation import CAMERA_ROLES
from rpent_box_robotwin.platform import RobotwinPlatform
from rpent_box_robotwin.plugin import RobotwinOptions
from rpent_box_robotwin.suites import find_suite

pytestmark = pytest.mark.simulator

TASKS = find_suite("demo_clean").tasks
STACK = Scene(suite="demo_clean", task=TASKS.index("stack_blocks_two"), init_state=100000, seed=7)
ANOTHER_SEED = Scene(suite=STACK.suite, task=STACK.task, init_state=100001, seed=7)
ANOTHER_TASK = Scene(
    suite=STACK.suite, task=TASKS.index("stack_blocks_three"), init_state=100000, seed=7
)
QPOS, EEF = control_spec(ROBOTWIN_QPOS14), control_spec(ROBOTWIN_EEF16)
PINS = {
    "rlinf-robotwin-runtime": "0.1.3",
    "sapien": "3.0.3",
    "mplib": "0.2.1",
    "numpy": "1.26.4",
}


@pytest.fixture(scope="module")
def opened(assets: Path) -> Iterator[RobotwinPlatform]:
    running = PLATFORM.open(RobotwinOptions(assets_path=str(assets)))
    assert isinstance(running, RobotwinPlatform)
    yield running
    running.close()


@pytest.fixture
def platform(opened: RobotwinPlatform) -> RobotwinPlatform:
    """Return the one simulator, asked for the head camera alone: each costs a second."""
    show(opened, "head")
    return opened


def show(platform: RobotwinPlatform, *roles: str) -> None:
    platform.prepare(ModelNeeds(control=QPOS, camera_roles=roles, proprio=("joint_targets",)))


def held(observation: Observation, rows: int) -> np.ndarray:
    return np.tile(observation.proprio["joint_targets"], (rows, 1))


# --- what is seen -------------------------------------------------------------------------------


def test_the_head_sees_both_blocks_where_the_camera_says_they_are(
    platform: RobotwinPlatform,
) -> None:
    image = platform.reset(STACK).images["head"]
    stock = platform._current()._stock
    camera = platform._current()._camera("head_camera")
    into_camera = np.vstack((camera.get_extrinsic_matrix(), [0, 0, 0, 1]))[:3]
    for block, colour in ((stock.block1, 0), (stock.block2, 1)):
        place = camera.get_intrinsic_matrix() @ into_camera @ np.append(block.get_pose().p, 1)
        column, row = (round(float(number / place[2])) for number in place[:2])
        seen = image[row, column].astype(int)
        assert seen[colour] > 150
        assert np.delete(seen, colour).max() < 90


def test_moving_an_arm_changes_what_its_wrist_and_the_head_see(opened: RobotwinPlatform) -> None:
    show(opened, *CAMERA_ROLES)
    before = opened.reset(STACK)
    assert set(before.images) == set(CAMERA_ROLES)
    lifted = held(before, 1)
    lifted[0, 1:3] += 0.3
    applied = opened.apply(lifted)
    assert applied.observation is not None
    after = applied.observation.images
    changed = {role: np.abs(after[role].astype(int) - before.images[role]).mean() for role in after}
    assert changed["left_wrist"] > 2
    assert changed["head"] > 0.1
    assert changed["right_wrist"] < changed["left_wrist"] / 5
    assert not np.array_equal(before.images["left_wrist"], before.images["right_wrist"])


def test_two_seeds_differ_and_one_repeats(platform: RobotwinPlatform) -> None:
    first = platform.reset(STACK)
    platform.apply(held(first, 1))
    other = platform.reset(ANOTHER_SEED)
    again = platform.reset(STACK)
    assert not np.array_equal(other.images["head"], first.images["head"])
    assert again.images["head"].tobytes() == first.images["head"].tobytes()
    assert again.instruction == first.instruction
    for name, values in first.proprio.items():
        assert again.proprio[name].tobytes() == values.tobytes(), name


def test_only_the_cameras_that_are_asked_for_are_drawn(platform: RobotwinPlatform) -> None:
    show(platform, "right_wrist")
    assert list(platform.reset(STACK).images) == ["right_wrist"]
    with pytest.raises(UnknownName, match="no camera front; it has head, left_wrist, right_wrist"):
        show(platform, "front")


def test_set_points_and_measurements_are_told_apart(platform: RobotwinPlatform) -> None:
    shown = platform.reset(STACK)
    moved = held(shown, 1)
    moved[0, 0] += 0.2
    applied = platform.apply(moved)
    assert applied.observation is not None
    proprio = applied.observation.proprio
    assert proprio["joint_targets"].tolist() == moved[0].tolist()
    lag = np.abs(proprio["joint_positions"] - np.delete(moved[0], [6, 13]))
    assert 1e-4 < lag.max() < 0.01


# --- how it is moved ----------------------------------------------------------------------------


def test_the_model_chooses_the_controller(platform: RobotwinPlatform) -> None:
    platform.prepare(ModelNeeds(control=EEF, camera_roles=("head",), proprio=()))
    shown = platform.reset(ANOTHER_SEED).proprio
    names = ("left_eef_pose", "left_gripper", "right_eef_pose", "right_gripper")
    command = np.concatenate([shown[name] for name in names])[np.newaxis]
    command[0, 9:11] += 0.05
    applied = platform.apply(command)
    assert applied.observation is not None
    reached = applied.observation.proprio
    assert np.linalg.norm(reached["right_eef_pose"][:3] - command[0, 8:11]) < 0.004
    assert np.linalg.norm(reached["left_eef_pose"] - shown["left_eef_pose"]) < 1e-3
    assert applied.remarks == {}
    with pytest.raises(BadActions, match=r"takes \[steps, 16\]"):
        platform.apply(np.zeros((1, 14), dtype=np.float32))
    command[0, 0] += 3
    for _ in range(2):
        held = platform.apply(command)
        assert held.steps == 1
        assert held.remarks == {"the left hand could not reach its target and was held": 1}


def test_another_controller_takes_over_at_the_next_reset(platform: RobotwinPlatform) -> None:
    shown = platform.reset(STACK)
    platform.prepare(ModelNeeds(control=EEF, camera_roles=("head",), proprio=()))
    assert platform.apply(held(shown, 1)).steps == 1
    platform.reset(STACK)
    with pytest.raises(BadActions, match=r"takes \[steps, 16\]"):
        platform.apply(held(shown, 1))


def test_another_platforms_control_is_refused(platform: RobotwinPlatform) -> None:
    with pytest.raises(IncompatibleWorker, match=r"does not move in libero\.osc_pose"):
        platform.prepare(
            ModelNeeds(control=control_spec(LIBERO_OSC_DELTA), camera_roles=("head",), proprio=())
        )


def test_a_chunk_ends_where_the_task_is_solved(platform: RobotwinPlatform) -> None:
    import sapien

    shown = platform.reset(STACK)
    assert platform.apply(held(shown, 1)).success is False
    stock = platform._current()._stock
    below = stock.block1.get_pose()
    on_top = below.p + np.array([0, 0, 0.05], dtype=np.float32)
    stock.block2.actor.set_pose(sapien.Pose(on_top, below.q))
    applied = platform.apply(held(shown, 5))
    assert (applied.steps, applied.success, applied.observation) == (1, True, None)
    assert applied.simulate_s > 0


# --- what a scene is ----------------------------------------------------------------------------


def test_a_scene_that_stands_untouched_is_not_built_again(platform: RobotwinPlatform) -> None:
    shown = platform.reset(STACK)
    standing = platform._current()
    platform.reset(STACK)
    assert platform._current() is standing
    platform.apply(held(shown, 1))
    platform.reset(STACK)
    assert platform._current() is not standing


def test_the_run_seed_changes_no_scene(platform: RobotwinPlatform) -> None:
    platform.reset(STACK)
    standing = platform._current()
    platform.reset(Scene(suite=STACK.suite, task=STACK.task, init_state=100000, seed=8))
    assert platform._current() is standing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suite": "demo_dirty"}, "demo_dirty"),
        ({"task": 50}, "no task 50"),
        ({"init_state": -1}, "no scene seed -1; any from 0 to 4294967295"),
        ({"init_state": 2**32}, "no scene seed 4294967296"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(
    platform: RobotwinPlatform, change: dict[str, object], message: str
) -> None:
    from msgspec.structs import replace

    with pytest.raises(UnknownName, match=message):
        platform.reset(replace(STACK, **change))


def test_a_refused_scene_leaves_the_standing_one_as_it_is(platform: RobotwinPlatform) -> None:
    platform.reset(STACK)
    standing = platform._current()
    with pytest.raises(UnknownName):
        platform.reset(Scene(suite=STACK.suite, task=STACK.task, init_state=-1, seed=0))
    platform.reset(STACK)
    assert platform._current() is standing


def test_after_a_scene_that_fails_half_way_the_next_one_is_whole(
    platform: RobotwinPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robotwin.envs._base_task import Base_Task

    shown = platform.reset(STACK)
    for error in (KeyboardInterrupt, MemoryError):
        with monkeypatch.context() as patched:
            patched.setattr(Base_Task, "check_stable", raising(error))
            with pytest.raises(error):
                platform.reset(ANOTHER_SEED)
        with pytest.raises(SimulatorError, match="before its first reset"):
            platform.apply(held(shown, 1))
        assert "ASSETS_PATH" not in os.environ
        assert platform.reset(STACK).images["head"].tobytes() == shown.images["head"].tobytes()


def test_meshes_go_when_the_task_changes_though_its_last_scene_failed(
    platform: RobotwinPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robotwin.envs._base_task import Base_Task

    platform.reset(STACK)
    forgotten: list[bool] = []
    monkeypatch.setattr(
        platform._renderer, "forget_meshes", lambda: forgotten.append(platform._environment is None)
    )
    with monkeypatch.context() as patched:
        patched.setattr(Base_Task, "check_stable", lambda _task: (False, ["box"]))
        with pytest.raises(SimulatorError, match="does not settle"):
            platform.reset(ANOTHER_SEED)
    platform.reset(STACK)
    assert forgotten == []
    with monkeypatch.context() as patched:
        patched.setattr(Base_Task, "check_stable", lambda _task: (False, ["box"]))
        with pytest.raises(SimulatorError, match="does not settle"):
            platform.reset(ANOTHER_TASK)
    assert forgotten == [True]
    platform.reset(STACK)
    assert forgotten == [True, True]


def test_a_list_of_sentences_binds_scenes_to_them(assets: Path, tmp_path: Path) -> None:
    listed = tmp_path / "sentences.jsonl"
    listed.write_text(
        '{"task": "stack_blocks_two", "seed": 100001, "instruction": "green onto red"}\n',
        encoding="utf-8",
    )
    platform = RobotwinPlatform.open(RobotwinOptions(assets_path=str(assets), language=str(listed)))
    try:
        show(platform, "head")
        assert platform.reset(ANOTHER_SEED).instruction == "green onto red"
        with pytest.raises(UnknownName, match="scene seed 100000"):
            platform.reset(STACK)
    finally:
        platform.close()


# --- the simulator ------------------------------------------------------------------------------


def test_the_pins_are_what_runs(platform: RobotwinPlatform) -> None:
    assert platform.versions.items() >= PINS.items()
    assert platform.versions["robotwin-assets"]


def test_the_renderer_names_its_device_and_whether_it_traces_rays(
    platform: RobotwinPlatform, assets: Path
) -> None:
    import sapien

    from rpent_box_robotwin.renderer import find_renderer, is_software

    assert platform.renderer.startswith("sapien: ")
    assert platform.renderer.endswith("ray tracing")
    if not is_software(platform.renderer):
        pytest.skip("this machine draws on a GPU; what is refused is tried in software")
    assert platform.renderer.endswith(", software, no ray tracing")
    with pytest.raises(BadOption, match="ray_tracing is on, but the only Vulkan device is"):
        find_renderer("on")
    platform.reset(STACK)
    assert not sapien.render.get_camera_shader_dir().endswith("rt")
    assert sapien.render.set_camera_shader_dir.__name__ == "set_camera_shader_dir"


def test_no_device_says_what_to_install(
    opened: RobotwinPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sapien

    from rpent_box_robotwin.renderer import find_renderer

    def nowhere() -> None:
        raise RuntimeError("failed to find a rendering device")

    monkeypatch.setattr(sapien.render, "RenderSystem", nowhere)
    with pytest.raises(SimulatorError, match="failed to find a rendering device") as caught:
        find_renderer("auto")
    assert "mesa-vulkan-drivers" in caught.value.hint


def test_acting_before_the_first_reset_and_resetting_without_assets_are_refused() -> None:
    pytest.importorskip("sapien")
    platform = RobotwinPlatform.open(RobotwinOptions())
    try:
        assert "robotwin-assets" not in platform.versions
        with pytest.raises(SimulatorError, match="before its first reset"):
            platform.apply(np.zeros((1, 14), dtype=np.float32))
        with pytest.raises(AssetsMissing, match="meshes and textures"):
            platform.reset(STACK)
    finally:
        platform.close()
        platform.close()


def test_many_scenes_do_not_grow_the_process(platform: RobotwinPlatform) -> None:
    platform.reset(STACK)
    before = resident_mb()
    for number in range(8):
        scene = Scene(suite=STACK.suite, task=STACK.task, init_state=100100 + number, seed=0)
        platform.reset(scene)
    gc.collect()
    assert resident_mb() - before < 200  # a single leaked scene weighs 250


def test_the_last_replayed_frame_is_the_last_one_seen(platform: RobotwinPlatform) -> None:
    shown = platform.reset(STACK)
    lifted = held(shown, 3)
    lifted[:, 1:3] += np.float32([[0.1], [0.2], [0.3]])
    applied = platform.apply(lifted)
    assert applied.observation is not None
    replayed = list(platform.replay(5.0))
    assert len(replayed) == 2
    assert replayed[0]["head"].tobytes() == shown.images["head"].tobytes()
    assert replayed[-1]["head"].tobytes() == applied.observation.images["head"].tobytes()
    assert set(replayed[-1]) == set(CAMERA_ROLES)
    assert platform.reset(STACK).images["head"].tobytes() == shown.images["head"].tobytes()


def raising(error: type[BaseException]) -> Callable[[object], None]:
    def fail(_task: object) -> None:
        raise error

    return fail


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6
