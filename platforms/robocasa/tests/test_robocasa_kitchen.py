# SPDX-License-Identifier: Apache-2.0
"""RoboCasa's own kitchens and tasks, played through the platform in stand-in assets.

Floor plans, styles, tasks, success, cameras, controllers and seeds are RoboCasa's; things are boxes
(standin_kitchen.py). With ROBOCASA_ASSETS_PATH the last test plays in the real ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rpent_box.errors import AssetsMissing, BadOption, SimulatorError
from rpent_box.sim.platform import ModelNeeds, Scene
from rpent_box_robocasa import PLATFORM
from rpent_box_robocasa.platform import RobocasaPlatform
from rpent_box_robocasa.plugin import RobocasaOptions
from rpent_box_robocasa.process import prepared_process
from rpent_box_robocasa.roles import VIEWS
from rpent_box_robocasa.seeds import scene_seed
from rpent_box_robocasa.suites import find_suite

pytestmark = pytest.mark.simulator

PINS = {
    "rlinf-robocasa365": "1.0.1",
    "robosuite": "1.5.2",
    "mujoco": "3.3.1",
    "numpy": "2.2.5",
    "numba": "0.61.2",
    "scipy": "1.15.3",
}
REAL_ASSETS = os.environ.get("ROBOCASA_ASSETS_PATH", "")
"""Read before the stand-ins take its place in this process."""
SIZE = 64
REST = np.float32([[0.0] * 11 + [-1.0]])


def scene_of(task: str, init_state: int = 3, seed: int = 7) -> Scene:
    """Return a scene; by default one whose things RoboCasa places at its first attempt."""
    tasks = find_suite("all_atomic_tasks").tasks
    return Scene(suite="all_atomic_tasks", task=tasks.index(task), init_state=init_state, seed=seed)


@pytest.fixture(scope="module")
def options(standins: str) -> RobocasaOptions:
    return RobocasaOptions(assets_path=standins, image_size=SIZE)


@pytest.fixture(scope="module")
def platform(options: RobocasaOptions) -> Iterator[RobocasaPlatform]:
    running = PLATFORM.open(options)
    assert isinstance(running, RobocasaPlatform)
    yield running
    running.close()
    running.close()


def test_the_pins_are_what_runs(platform: RobocasaPlatform) -> None:
    assert platform.versions.items() >= PINS.items()
    assert platform.renderer.startswith(("osmesa: ", "egl: "))


def test_a_scene_is_what_robocasas_own_loop_shows(
    platform: RobocasaPlatform, standins: str
) -> None:
    scene = scene_of("TurnOnSinkFaucet", init_state=2)
    shown = [platform.reset(scene)]
    actions = np.float32(np.random.default_rng(1).uniform(-1, 1, (8, 12)))
    applied = platform.apply(actions)
    assert applied.observation is not None
    shown.append(applied.observation)
    states = platform.recorded_states()

    from robocasa.utils.env_utils import create_env

    seed = scene_seed(scene)
    with prepared_process(standins):
        stock = create_env(
            "TurnOnSinkFaucet", camera_widths=SIZE, camera_heights=SIZE, split="target"
        )
        try:
            random.seed(seed)
            np.random.seed(seed)
            stock.rng = np.random.default_rng(seed)
            drawn = [stock.reset()]
            stock_states = [stock.sim.get_state().flatten()]
            for action in actions:
                drawn.append(stock.step(np.float64(action))[0])
                stock_states.append(stock.sim.get_state().flatten())
            instruction = stock.get_ep_meta()["lang"]
        finally:
            stock.close()
    np.testing.assert_array_equal(states, stock_states)
    for observation, step in zip(shown, (0, 8), strict=True):
        assert observation.instruction == instruction
        for role, (camera, ago) in VIEWS.items():
            wanted = drawn[max(0, step - ago)][f"{camera}_image"][::-1]
            assert observation.images[role].tobytes() == wanted.tobytes(), (step, role)


def test_a_scene_is_the_same_after_others_and_as_the_first_of_another_process(
    platform: RobocasaPlatform, standins: str
) -> None:
    """The areas of a counter, among others, must not depend on where things lie in memory."""
    scene = scene_of("PickPlaceCounterToCabinet", init_state=4)
    platform.reset(replace(scene, init_state=5))
    other = platform.recorded_states()[0]
    platform.apply(np.repeat(REST, 3, axis=0))
    platform.reset(scene_of("NavigateKitchen"))
    seen = platform.reset(scene)
    state = platform.recorded_states()[0]
    assert not np.array_equal(state, other)
    program = (
        "import hashlib, json\n"
        "from rpent_box_robocasa import PLATFORM\n"
        "from rpent_box.sim.platform import Scene\n"
        "ballast = [object() for _ in range(100_003)]\n"
        f"platform = PLATFORM.open(PLATFORM.options(assets_path={standins!r}, image_size={SIZE}))\n"
        f"scene = Scene(suite={scene.suite!r}, task={scene.task}, init_state=4, seed=7)\n"
        "seen = platform.reset(scene)\n"
        "frames = {r: hashlib.sha256(i.tobytes()).hexdigest() for r, i in seen.images.items()}\n"
        "state = platform.recorded_states()[0].tolist()\n"
        "print(json.dumps([state, frames, seen.instruction]))\n"
        "platform.close()\n"
    )
    there = json.loads(run_here(program, hash_seed="12345"))
    frames = {
        role: hashlib.sha256(image.tobytes()).hexdigest() for role, image in seen.images.items()
    }
    assert there == [state.tolist(), frames, seen.instruction]


def test_success_is_the_tasks_own_and_ends_a_chunk(platform: RobocasaPlatform) -> None:
    platform.reset(scene_of("TurnOnSinkFaucet", init_state=1))
    environment = platform._current()
    assert not environment.is_solved()
    kitchen = environment.robosuite
    kitchen.sink.set_handle_state(env=kitchen, rng=kitchen.rng, mode="on")
    applied = platform.apply(np.repeat(REST, 5, axis=0))
    assert (applied.success, applied.steps, applied.observation) == (True, 1, None)


def test_standing_before_the_target_solves_navigation(platform: RobocasaPlatform) -> None:
    platform.reset(scene_of("NavigateKitchen"))
    environment = platform._current()
    assert not environment.is_solved()
    kitchen = environment.robosuite
    model, data = kitchen.sim.model, kitchen.sim.data
    joints = [
        model.get_joint_qpos_addr(f"mobilebase0_joint_mobile_{name}")
        for name in ("forward", "side", "yaw")
    ]
    put_down = kitchen.init_robot_base_ori_anchor[2]
    data.qpos[joints[2]] = kitchen.target_ori[2] - put_down
    kitchen.sim.forward()
    place = data.body_xpos[model.body_name2id("mobilebase0_base")]
    away = kitchen.target_pos[:2] - place[:2]
    # The joints slide along the axes in which the base was put down.
    cosine, sine = np.cos(put_down), np.sin(put_down)
    data.qpos[joints[0]] += cosine * away[0] + sine * away[1]
    data.qpos[joints[1]] += -sine * away[0] + cosine * away[1]
    kitchen.sim.forward()
    assert environment.is_solved()


def test_collisions_and_base_are_those_of_robosuites_development_line(
    platform: RobocasaPlatform,
) -> None:
    import mujoco

    platform.reset(scene_of("NavigateKitchen"))
    kitchen = platform._current().robosuite
    assert kitchen.sim.model._model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_MULTICCD
    controller = kitchen.robots[0].composite_controller.part_controllers["base"]
    asked = np.array([1.0, 0.0, 0.0])
    data, model = kitchen.sim.data, kitchen.sim.model
    data.qpos[model.get_joint_qpos_addr("mobilebase0_joint_mobile_yaw")] += np.pi / 2
    kitchen.sim.forward()
    controller.set_goal(asked, None)
    # The joints slide as the base was put down: a quarter turn to the left makes forward left.
    assert controller.goal_qvel == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert asked.tolist() == [1.0, 0.0, 0.0]


def test_running_water_is_seen_and_replayed(platform: RobocasaPlatform) -> None:
    """What RoboCasa changes in the model, and no position tells, belongs to a moment too."""
    platform.reset(scene_of("TurnOnSinkFaucet"))
    environment = platform._current()
    dry = environment.moments.appearance
    kitchen = environment.robosuite
    kitchen.sink.set_handle_state(env=kitchen, rng=kitchen.rng, mode="on")
    environment.step(REST[0])
    environment.step(REST[0])
    assert environment.moments.appearance is not dry
    assert not dry.is_of(kitchen.sim.model)
    dry.put_on(kitchen.sim.model)
    assert dry.is_of(kitchen.sim.model)


def test_a_replayed_frame_shows_the_recorded_moment(platform: RobocasaPlatform) -> None:
    seen = [platform.reset(scene_of("NavigateKitchen"))]
    for _ in range(2):
        applied = platform.apply(np.repeat(REST, 10, axis=0))
        assert applied.observation is not None
        seen.append(applied.observation)
    replayed = list(platform.replay(2.0))
    assert len(replayed) == len(seen)
    for observation, frame in zip(seen, replayed, strict=True):
        assert set(frame) == {"agentview_left", "agentview_right", "wrist"}
        for role, image in frame.items():
            # Sampled one physics step apart, while the robot stands still.
            assert np.abs(image.astype(int) - observation.images[role]).mean() < 0.5


def test_a_model_is_shown_what_it_asks_for(platform: RobocasaPlatform) -> None:
    roles = ("wrist", "agentview_left_4_steps_ago")
    needs = ModelNeeds(
        control=PLATFORM.meta.controls[0], camera_roles=roles, proprio=("gripper_qpos",)
    )
    platform.prepare(needs)
    try:
        seen = platform.reset(scene_of("NavigateKitchen"))
    finally:
        platform.prepare(replace(needs, camera_roles=tuple(VIEWS)))
    assert set(seen.images) == set(roles)
    assert seen.proprio["gripper_qpos"].shape == (2,)


def test_the_target_kitchens_are_ten_and_those_of_pretraining_2500(standins: str) -> None:
    with prepared_process(standins):
        from rpent_box_robocasa.kitchen import kitchens_of

        assert kitchens_of(RobocasaOptions()) == [(number, number) for number in range(1, 11)]
        pretraining = RobocasaOptions(split="pretrain")
        assert len(kitchens_of(pretraining)) == 2500
        assert kitchens_of(replace(pretraining, layout=11, style=60)) == [(11, 60)]
        assert len(kitchens_of(replace(pretraining, layout=11))) == 50
        with pytest.raises(BadOption, match="layout 3 and style 4"):
            kitchens_of(RobocasaOptions(layout=3, style=4))


def test_a_kitchen_of_pretraining_can_be_chosen(options: RobocasaOptions) -> None:
    """Its walls, floors and cabinets have generated textures, which those of the target lack."""
    platform = PLATFORM.open(replace(options, split="pretrain", layout=11, style=17))
    try:
        platform.reset(scene_of("NavigateKitchen"))
        kitchen = platform._current().robosuite
        assert (kitchen.layout_id, kitchen.style_id) == (11, 17)
        textures = {element.get("file") for element in kitchen.model.asset.findall("texture")}
        assert f"{options.assets_path}/generative_textures/floor/tex031.png" in textures
    finally:
        platform.close()


def test_plans_are_read_as_pyyaml_reads_them(standins: str) -> None:
    import yaml

    with prepared_process(standins):
        from robocasa.models.scenes import kitchen_arena, scene_utils
        from robocasa.utils import env_utils

        from rpent_box_robocasa.plans import quick_load

    for module in (kitchen_arena, scene_utils, env_utils):
        assert module.yaml.safe_load is quick_load
    for name in (
        "fixtures/fixture_registry/sink.yaml",
        "scenes/kitchen_layouts/test/layout003.yaml",
    ):
        plan = (Path(standins) / name).read_text()
        assert repr(quick_load(plan)) == repr(yaml.safe_load(plan))


def test_a_folder_of_assets_is_looked_through_once(
    options: RobocasaOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def require(assets_path: str) -> None:
        looked.append(assets_path)
        if len(looked) == 1:
            raise AssetsMissing("not yet")

    monkeypatch.setattr("rpent_box_robocasa.platform.require", require)
    platform = RobocasaPlatform(options, renderer="", resources=ExitStack())
    with pytest.raises(AssetsMissing):
        platform._check_assets()
    platform._check_assets()
    platform._check_assets()
    assert looked == [options.assets_path] * 2


def test_without_assets_it_opens_and_refuses_only_the_reset(standins: str) -> None:
    program = (
        "from rpent_box_robocasa import PLATFORM\n"
        "from rpent_box.errors import AssetsMissing\n"
        "from rpent_box.sim.platform import Scene\n"
        "platform = PLATFORM.open(PLATFORM.options())\n"
        "print(PLATFORM.check(platform))\n"
        "try:\n"
        "    platform.reset(Scene(suite='atomic_seen', task=0, init_state=0, seed=7))\n"
        "except AssetsMissing as error:\n"
        "    print('fetch_assets' in error.hint)\n"
        "platform.close()\n"
    )
    assert run_here(program).splitlines() == ["[]", "True"]


def test_one_process_has_one_folder_of_assets(standins: str, tmp_path: Path) -> None:
    with prepared_process(standins):
        pass
    with pytest.raises(SimulatorError, match="already imported"), prepared_process(str(tmp_path)):
        pass


def test_acting_before_the_first_reset_is_refused(options: RobocasaOptions) -> None:
    platform = PLATFORM.open(options)
    try:
        with pytest.raises(SimulatorError, match="before its first reset"):
            platform.apply(REST)
    finally:
        platform.close()


@pytest.mark.slow
def test_the_real_kitchens_are_built_and_moved_in() -> None:
    try:
        assert PLATFORM.require is not None
        PLATFORM.require(RobocasaOptions(assets_path=REAL_ASSETS))
    except AssetsMissing as error:
        pytest.skip(f"RoboCasa's own assets are not here: {error}")
    program = (
        "import numpy as np\n"
        "from rpent_box_robocasa import PLATFORM\n"
        "from rpent_box.sim.platform import Scene\n"
        f"platform = PLATFORM.open(PLATFORM.options(assets_path={REAL_ASSETS!r}))\n"
        "for suite in PLATFORM.suites:\n"
        "    scene = Scene(suite=suite.name, task=0, init_state=0, seed=7)\n"
        "    first, second = platform.reset(scene), platform.reset(scene)\n"
        "    for role, image in first.images.items():\n"
        "        assert image.tobytes() == second.images[role].tobytes(), role\n"
        "        assert image.std() > 5\n"
        "    assert first.instruction\n"
        "    applied = platform.apply(np.float32([[0.5] * 6 + [-1] + [0] * 4 + [-1]] * 8))\n"
        "    assert (applied.steps, applied.success) == (8, False)\n"
        "    print(suite.name)\n"
        "platform.close()\n"
    )
    assert run_here(program, timeout_s=1800).split() == [suite.name for suite in PLATFORM.suites]


def run_here(program: str, *, hash_seed: str = "0", timeout_s: float = 280) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
