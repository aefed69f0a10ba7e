# SPDX-License-Identifier: Apache-2.0
"""The same questions to every installed platform: first what it declares, then what it does.

What it does is asked where its simulator is, in that platform's own Python; elsewhere those
questions are skipped with the command that makes such a Python. Questions about its process, such
as memory and standard output, are in test_platform_process.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from platform_actions import small_actions
from platform_frames import (
    ALIKE,
    WRONG_WAYS,
    Coarse,
    cameras_that_tell,
    coarse,
    likeness,
    recorded,
)
from platform_plausible import PLAUSIBLE, implausible
from platform_subjects import (
    EARLIER_FRAME,
    Played,
    Running,
    missing_assets,
    opened,
    simulator_of,
    steps_ago,
    suite_called,
)

from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import AssetsMissing, BadActions, ContractError, RpentBoxError, UnknownName
from rpent_box.options import parse_options, path_fields, to_arguments
from rpent_box.plugins import find_platform, platform_names
from rpent_box.sim.platform import PlatformPlugin, Scene

NAMES = platform_names()
SIMULATORS = ("robosuite", "mujoco", "sapien", "mplib", "libero", "robotwin", "robocasa")
HEAVY = ("torch", "scipy", "cv2", "PIL", "numba", "OpenGL", "open3d", "trimesh", "yaml")
IMPORT_CPU_S = 1.0
STEPS = 4
STILL_GREY_LEVELS = 3.0
"""Mean difference of two frames of one moment, drawn at two times."""


@pytest.fixture(scope="module", params=NAMES)
def plugin(request: pytest.FixtureRequest) -> PlatformPlugin:
    return find_platform(request.param)


@pytest.fixture(scope="module")
def running(plugin: PlatformPlugin) -> Iterator[Running]:
    with opened(plugin) as running:
        yield running


@pytest.fixture(scope="module")
def seen_first(running: Running) -> Observation:
    """What the first scene shows through everything."""
    running.prepare()
    return running.platform.reset(running.scene)


@pytest.fixture(scope="module")
def actions(running: Running, seen_first: Observation) -> Actions:
    return small_actions(running.platform.meta.controls[0], seen_first, STEPS)


@pytest.fixture(scope="module")
def played(running: Running, actions: Actions) -> Played:
    """What came of `actions` in the first scene, through one camera."""
    first = running.reset_for_one_camera()
    return Played(first=first, applied=running.platform.apply(actions))


# --- what it declares ---------------------------------------------------------------------------


def test_at_least_one_platform_is_installed() -> None:
    assert NAMES


def test_its_name_is_its_entry_points(plugin: PlatformPlugin) -> None:
    assert plugin.name in NAMES
    assert plugin.meta.name == plugin.name


def test_finding_it_is_quick_and_imports_no_simulator(plugin: PlatformPlugin) -> None:
    names = sorted({*SIMULATORS, *HEAVY, simulator_of(plugin) or plugin.name})
    program = (
        "import sys, time\n"
        "import numpy\n"
        "from rpent_box.plugins import find_platform\n"
        "began = time.process_time()\n"
        f"find_platform({plugin.name!r})\n"
        f"took = time.process_time() - began\n"
        f"print(took, *[name for name in {names!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    seconds, *imported = done.stdout.split()
    assert imported == []
    assert float(seconds) < IMPORT_CPU_S


def test_its_controls_are_known_action_spaces(plugin: PlatformPlugin) -> None:
    assert plugin.meta.controls
    assert len(set(plugin.meta.controls)) == len(plugin.meta.controls)
    for control in plugin.meta.controls:
        space = KNOWN_SPACES[control.action_space]
        assert control.embodiment == space.embodiment
        assert control.action_type == space.action_type
        assert control.action_schema == tuple(field.name for field in space.fields)


def test_its_cameras_and_proprio_have_names_in_use(plugin: PlatformPlugin) -> None:
    meta = plugin.meta
    assert meta.camera_roles
    assert len(set(meta.camera_roles)) == len(meta.camera_roles)
    for role in meta.camera_roles:
        assert EARLIER_FRAME.sub("", role) in meta.camera_roles, "a past frame of no camera"
    assert min(meta.image_size) > 0
    assert set(meta.proprio_schema) <= set(PLAUSIBLE)
    assert all(length > 0 for length in meta.proprio_schema.values())


def test_its_suites_can_be_listed_and_chosen(plugin: PlatformPlugin) -> None:
    names = [suite.name for suite in plugin.suites]
    assert len(set(names)) == len(names)
    assert suite_called(plugin, plugin.default_suite).unavailable == ""
    for suite in plugin.suites:
        assert suite.max_steps > 0
        assert suite.init_states >= 0
        assert suite.first_init_state >= 0
        assert suite.unavailable or suite.tasks
        assert len(set(suite.tasks)) == len(suite.tasks)
        assert len(suite.task_max_steps) in (0, len(suite.tasks))
        assert all(steps > 0 for steps in suite.task_max_steps)


def test_a_variant_is_one_of_a_suite_that_can_be_listed(plugin: PlatformPlugin) -> None:
    listed = {suite.name: suite for name in NAMES for suite in find_platform(name).suites}
    for suite in plugin.suites:
        if suite.variant_of:
            assert suite.variant_of in listed, suite.name
            assert listed[suite.variant_of].variant_of == "", suite.name


def test_its_options_have_defaults_and_survive_the_command_line(plugin: PlatformPlugin) -> None:
    options = plugin.options()
    assert parse_options(plugin.options, to_arguments(options), program="test") == options


def test_a_variable_stands_in_for_an_option_that_it_has(plugin: PlatformPlugin) -> None:
    names = {field.name for field in msgspec.structs.fields(plugin.options)}
    for variable, field in plugin.env_fallbacks.items():
        assert variable.isupper()
        assert field in names


def test_missing_assets_are_named_with_the_command_that_fetches_them(
    plugin: PlatformPlugin, tmp_path
) -> None:
    paths = [field for field in plugin.env_fallbacks.values() if field in _paths(plugin)]
    if plugin.require is None:
        assert not paths, "a folder of assets is an option, and nobody looks into it"
        pytest.skip(f"{plugin.name} brings everything that it needs")
    for folder in ("", str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(AssetsMissing) as caught:
            plugin.require(replace(plugin.options(), **dict.fromkeys(paths, folder)))
        assert caught.value.hint
        assert folder in str(caught.value)


def test_its_declaration_travels_as_data(plugin: PlatformPlugin) -> None:
    meta = plugin.meta
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(meta), type=type(meta)) == meta


def test_it_says_what_it_needs(plugin: PlatformPlugin) -> None:
    assert plugin.summary
    assert plugin.licence
    assert plugin.memory
    assert plugin.python.count(".") == 1
    assert plugin.check is not None, "no scene is recorded that it could be compared with"


def test_the_scenes_below_are_made_of_its_own_assets(plugin: PlatformPlugin) -> None:
    missing = missing_assets(plugin)
    if missing is not None:
        pytest.skip(f"{plugin.name} is asked with assets for tests, or not at all: {missing}")


# --- what it shows ------------------------------------------------------------------------------


@pytest.mark.simulator
def test_it_runs_as_declared(plugin: PlatformPlugin, running: Running) -> None:
    assert running.platform.meta == plugin.meta
    assert running.platform.renderer
    assert running.platform.versions
    assert all(running.platform.versions.values())


@pytest.mark.simulator
def test_a_scene_shows_what_the_meta_promises(running: Running, seen_first: Observation) -> None:
    require_promised(running.platform.meta, seen_first)
    assert set(running.platform.meta.camera_roles) <= set(seen_first.images)
    assert set(running.platform.meta.proprio_schema) <= set(seen_first.proprio)


@pytest.mark.simulator
def test_what_it_measures_is_plausible(seen_first: Observation, played: Played) -> None:
    assert implausible(seen_first.proprio) == []
    assert played.applied.observation is not None
    assert implausible(played.applied.observation.proprio) == []


@pytest.mark.simulator
def test_frames_are_upright_and_in_rgb(running: Running, seen_first: Observation) -> None:
    looked_at = recorded(running.plugin.name)
    if not looked_at:
        pytest.skip(f"nobody has looked at {running.plugin.name}'s frames: platform_frames.py")
    assert set(looked_at) == set(running.cameras)
    seen = {role: coarse(seen_first.images[role]) for role in looked_at}
    for role, picture in looked_at.items():
        assert likeness(seen[role], picture) > ALIKE, role
    for wrong, turn in WRONG_WAYS.items():
        telling = cameras_that_tell(looked_at, wrong)
        assert telling, f"no camera could tell whether it is {wrong}"
        for role in telling:
            as_it_is, turned = (likeness(one, looked_at[role]) for one in _both(seen[role], turn))
            assert turned < as_it_is - 0.01, f"{role} may be {wrong}"


@pytest.mark.simulator
def test_a_second_reset_shows_the_same(running: Running, seen_first: Observation) -> None:
    running.prepare()
    require_equal(running.platform.reset(running.scene), seen_first)


@pytest.mark.simulator
def test_each_camera_and_measurement_can_be_asked_for_alone(
    running: Running, seen_first: Observation
) -> None:
    proprio = list(running.platform.meta.proprio_schema)
    for place, role in enumerate(running.cameras):
        name = proprio[place % len(proprio)]
        running.prepare(roles=(role,), proprio=(name,))
        shown = running.platform.reset(running.scene)
        require_promised(running.platform.meta, shown)
        assert shown.images[role].tobytes() == seen_first.images[role].tobytes(), role
        assert shown.proprio[name].tobytes() == seen_first.proprio[name].tobytes(), name


@pytest.mark.simulator
def test_a_frame_of_earlier_steps_is_what_was_shown_then(running: Running) -> None:
    past = [role for role in running.platform.meta.camera_roles if EARLIER_FRAME.search(role)]
    if not past:
        pytest.skip(f"{running.plugin.name} shows frames of now alone")
    role = EARLIER_FRAME.sub("", past[0])
    ours = {then: steps_ago(then) for then in past if EARLIER_FRAME.sub("", then) == role}
    needs = running.prepare(roles=(role, *ours))
    shown = [running.platform.reset(running.scene)]
    for row in small_actions(needs.control, shown[0], max(ours.values()) + 1):
        applied = running.platform.apply(row[np.newaxis])
        assert applied.observation is not None
        shown.append(applied.observation)
        for then, steps in ours.items():
            before = shown[max(0, len(shown) - 1 - steps)].images[role]
            assert applied.observation.images[then].tobytes() == before.tobytes(), then


# --- what fixes a scene -------------------------------------------------------------------------


@pytest.mark.simulator
def test_a_scene_does_not_depend_on_what_was_played(running: Running, played: Played) -> None:
    others = 0
    for scene in running.elsewhere:
        try:
            other = running.platform.reset(scene)
        except AssetsMissing:
            assert missing_assets(running.plugin), "its own assets are here and lack something"
            continue
        others += 1
        assert frames(other) != frames(played.first), f"{scene} looks like {running.scene}"
        running.platform.apply(small_actions(running.platform.meta.controls[0], other, 2))
    assert others
    require_equal(running.reset_for_one_camera(), played.first)


@pytest.mark.simulator
def test_equal_actions_have_equal_consequences(
    running: Running, played: Played, actions: Actions
) -> None:
    running.reset_for_one_camera()
    again = running.platform.apply(actions)
    assert again.observation is not None
    assert played.applied.observation is not None
    require_equal(again.observation, played.applied.observation)
    assert frames(again.observation) != frames(played.first), "nothing moved"


@pytest.mark.simulator
def test_a_chunk_equals_its_rows_one_by_one(
    running: Running, played: Played, actions: Actions
) -> None:
    running.reset_for_one_camera()
    for row in actions:
        applied = running.platform.apply(row[np.newaxis])
        assert (applied.steps, applied.success) == (1, False)
    assert applied.observation is not None
    assert played.applied.observation is not None
    require_equal(applied.observation, played.applied.observation)


@pytest.mark.simulator
def test_what_was_shown_is_not_changed_afterwards(running: Running, actions: Actions) -> None:
    shown = running.reset_for_one_camera()
    kept = [array.copy() for array in (*shown.images.values(), *shown.proprio.values())]
    applied = running.platform.apply(actions[:2])
    assert applied.observation is not None
    for array, before in zip((*shown.images.values(), *shown.proprio.values()), kept, strict=True):
        np.testing.assert_array_equal(array, before)


# --- how it is moved ----------------------------------------------------------------------------


@pytest.mark.simulator
def test_nothing_is_solved_at_the_start_and_every_row_is_counted(
    played: Played, actions: Actions
) -> None:
    assert not played.applied.success
    assert played.applied.steps == len(actions)
    assert played.applied.observation is not None


@pytest.mark.simulator
def test_time_is_split_into_simulating_and_drawing(played: Played) -> None:
    assert played.applied.simulate_s > 0
    assert played.applied.render_s > 0


@pytest.mark.simulator
def test_each_of_its_controls_moves_the_robot(running: Running) -> None:
    for control in running.platform.meta.controls:
        running.prepare(roles=running.cameras[:1], control=control)
        shown = running.platform.reset(running.scene)
        chosen = small_actions(control, shown, 2)
        with pytest.raises(BadActions):
            running.platform.apply(np.ascontiguousarray(chosen[:, :-1]))
        applied = running.platform.apply(chosen)
        assert (applied.steps, applied.success) == (len(chosen), False)
        assert applied.observation is not None
        require_promised(running.platform.meta, applied.observation)
        assert frames(applied.observation) != frames(shown), f"{control.action_space}: no motion"


@pytest.mark.simulator
def test_a_control_of_another_robot_is_refused_and_changes_nothing(
    running: Running, played: Played, actions: Actions
) -> None:
    ours = running.platform.meta.controls
    others = [replace(ours[0], action_type="another"), replace(ours[0], action_schema=("one",))]
    running.reset_for_one_camera()
    for control in others:
        with pytest.raises(ContractError) as caught:
            running.prepare(control=control)
        assert running.plugin.name in str(caught.value)
    applied = running.platform.apply(actions)
    assert applied.observation is not None
    assert played.applied.observation is not None
    require_equal(applied.observation, played.applied.observation)


@pytest.mark.simulator
def test_bad_actions_are_refused_and_change_nothing(
    running: Running, played: Played, actions: Actions
) -> None:
    running.reset_for_one_camera()
    for spoil in SPOILS:
        with pytest.raises(BadActions):
            running.platform.apply(spoil(actions))
    applied = running.platform.apply(actions)
    assert applied.observation is not None
    assert played.applied.observation is not None
    require_equal(applied.observation, played.applied.observation)


@pytest.mark.simulator
def test_an_unknown_scene_is_refused_by_name(running: Running, played: Played) -> None:
    suite = suite_called(running.plugin, running.scene.suite)
    changes: list[dict[str, str | int]] = [
        {"suite": "no_such_suite"},
        {"task": len(suite.tasks)},
        {"task": -1},
        {"init_state": -1},
    ]
    if suite.init_states:
        changes.append({"init_state": suite.first_init_state + suite.init_states})
    for change in changes:
        with pytest.raises(UnknownName, match=str(next(iter(change.values())))):
            running.platform.reset(replace(running.scene, **change))
    require_equal(running.reset_for_one_camera(), played.first)


@pytest.mark.simulator
def test_a_suite_that_cannot_be_played_is_refused(plugin: PlatformPlugin, running: Running) -> None:
    gone = [suite for suite in plugin.suites if suite.unavailable]
    if not gone:
        pytest.skip(f"every suite of {plugin.name} can be played")
    for suite in gone:
        with pytest.raises(RpentBoxError, match=suite.name):
            running.platform.reset(Scene(suite=suite.name, task=0, init_state=0, seed=0))


# --- what is left of an episode -----------------------------------------------------------------


@pytest.mark.simulator
def test_an_episode_can_be_drawn_again_and_leaves_no_trace(
    running: Running, played: Played, actions: Actions
) -> None:
    running.prepare(roles=running.cameras)
    first = running.platform.reset(running.scene)
    last = running.platform.apply(actions).observation
    assert last is not None
    space = KNOWN_SPACES[running.platform.meta.controls[0].action_space]
    drawn = list(running.platform.replay(space.control_hz / STEPS))
    assert len(drawn) == 2, "the episode's first and last moment"
    for observation, frame in zip((first, last), drawn, strict=True):
        assert set(frame) == set(running.cameras)
        for role, image in frame.items():
            require_image(running.platform.meta, image)
            off = np.abs(image.astype(int) - observation.images[role]).mean()
            assert off < STILL_GREY_LEVELS, f"{role} is off by {off:.1f} grey levels"
    require_equal(running.reset_for_one_camera(), played.first)


def with_last(value: float) -> Callable[[Actions], Actions]:
    def spoiled(actions: Actions) -> Actions:
        changed = actions.copy()
        changed[-1, -1] = value
        return changed

    return spoiled


SPOILS: tuple[Callable[[Actions], Actions], ...] = (
    with_last(np.nan),
    with_last(np.inf),
    lambda actions: np.ascontiguousarray(actions[:, :-1]),
    lambda actions: np.concatenate([actions, actions[:, :1]], axis=1),
    lambda actions: actions[:0],
    lambda actions: actions[0],
    lambda actions: actions[np.newaxis],
    lambda actions: actions.astype(np.float64),  # type: ignore[return-value]
)


def require_promised(meta: PlatformMeta, observation: Observation) -> None:
    """What is shown is among what is promised, and as it is promised."""
    assert set(observation.images) <= set(meta.camera_roles)
    assert set(observation.proprio) <= set(meta.proprio_schema)
    for image in observation.images.values():
        require_image(meta, image)
        assert image.std() > 5  # a black or plain frame is no scene
    for name, vector in observation.proprio.items():
        assert vector.shape == (meta.proprio_schema[name],), name
        assert vector.dtype == np.float32
        assert np.isfinite(vector).all()
    assert observation.instruction.strip()


def require_image(meta: PlatformMeta, image: Image) -> None:
    assert image.dtype == np.uint8
    assert image.shape == (*meta.image_size, 3)
    assert image.flags.c_contiguous


def require_equal(first: Observation, second: Observation) -> None:
    assert first.instruction == second.instruction
    assert set(first.images) == set(second.images)
    assert set(first.proprio) == set(second.proprio)
    for role, image in first.images.items():
        assert image.tobytes() == second.images[role].tobytes(), role
    for name, vector in first.proprio.items():
        assert vector.tobytes() == second.proprio[name].tobytes(), name


def frames(observation: Observation) -> dict[str, bytes]:
    return {role: image.tobytes() for role, image in observation.images.items()}


def _both(picture: Coarse, turn: Callable[[Coarse], Coarse]) -> tuple[Coarse, Coarse]:
    return picture, turn(picture)


def _paths(plugin: PlatformPlugin) -> list[str]:
    return path_fields(plugin.options)
