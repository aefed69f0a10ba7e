# SPDX-License-Identifier: Apache-2.0
"""The same questions to every installed platform: first what it declares, then what it does."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from rpent_box.contracts.control import ActionSpace
from rpent_box.contracts.observation import Actions, Observation
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.errors import BadActions, UnknownName
from rpent_box.options import parse_options, to_arguments
from rpent_box.plugins import find_platform, platform_names
from rpent_box.sim.platform import Platform, PlatformPlugin, Scene

SIMULATORS = {"libero": "robosuite"}
"""Platform → a module that is there when its simulator is."""
NAMES = platform_names()


@pytest.fixture(scope="module", params=NAMES)
def plugin(request: pytest.FixtureRequest) -> PlatformPlugin:
    return find_platform(request.param)


@pytest.fixture(scope="module")
def platform(plugin: PlatformPlugin) -> Iterator[Platform]:
    module = SIMULATORS.get(plugin.name, plugin.name)
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{plugin.name}'s simulator is not in this environment ({module} is missing)")
    for name, value in plugin.environment.items():
        os.environ.setdefault(name, value)
    running = plugin.open(plugin.options())
    yield running
    running.close()


@pytest.fixture(scope="module")
def scene(plugin: PlatformPlugin) -> Scene:
    return Scene(suite=plugin.default_suite, task=0, init_state=0, seed=7)


# --- what it declares ---------------------------------------------------------------------------


def test_at_least_one_platform_is_installed() -> None:
    assert NAMES


def test_its_name_is_its_entry_points(plugin: PlatformPlugin) -> None:
    assert plugin.name in NAMES
    assert plugin.meta.name == plugin.name


def test_finding_it_imports_no_simulator(plugin: PlatformPlugin) -> None:
    program = (
        "import sys\n"
        "from rpent_box.plugins import find_platform\n"
        f"find_platform({plugin.name!r})\n"
        f"print({SIMULATORS.get(plugin.name, plugin.name)!r} in sys.modules, "
        "'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "False"]


def test_its_controls_are_known_action_spaces(plugin: PlatformPlugin) -> None:
    assert plugin.meta.controls
    for control in plugin.meta.controls:
        space = KNOWN_SPACES[control.action_space]
        assert control.embodiment == space.embodiment
        assert control.action_schema == tuple(field.name for field in space.fields)


def test_its_suites_can_be_listed_and_chosen(plugin: PlatformPlugin) -> None:
    names = [suite.name for suite in plugin.suites]
    assert len(set(names)) == len(names)
    assert plugin.default_suite in names
    for suite in plugin.suites:
        assert suite.max_steps > 0
        assert suite.init_states >= 0
        assert suite.unavailable or suite.tasks


def test_its_options_have_defaults_and_survive_the_command_line(plugin: PlatformPlugin) -> None:
    options = plugin.options()
    assert parse_options(plugin.options, to_arguments(options), program="test") == options


def test_its_declaration_travels_as_data(plugin: PlatformPlugin) -> None:
    meta = plugin.meta
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(meta), type=type(meta)) == meta


def test_it_says_what_it_needs(plugin: PlatformPlugin) -> None:
    assert plugin.summary
    assert plugin.licence
    assert plugin.memory
    assert plugin.python.count(".") == 1


# --- what it does -------------------------------------------------------------------------------


@pytest.mark.simulator
def test_it_runs_as_declared(plugin: PlatformPlugin, platform: Platform) -> None:
    assert platform.meta == plugin.meta
    assert platform.renderer
    assert platform.versions
    assert all(platform.versions.values())


@pytest.mark.simulator
def test_a_scene_shows_what_the_meta_promises(platform: Platform, scene: Scene) -> None:
    require_promised(platform, platform.reset(scene))


@pytest.mark.simulator
def test_a_scene_does_not_depend_on_what_was_played(platform: Platform, scene: Scene) -> None:
    first = platform.reset(scene)
    platform.apply(some_actions(platform, 5))
    platform.reset(msgspec.structs.replace(scene, seed=scene.seed + 1))
    require_equal(platform.reset(scene), first)


@pytest.mark.simulator
def test_equal_actions_have_equal_consequences(platform: Platform, scene: Scene) -> None:
    actions = some_actions(platform, 6)
    platform.reset(scene)
    first = platform.apply(actions)
    platform.reset(scene)
    second = platform.apply(actions)
    assert first.steps == second.steps == len(actions)
    assert first.observation is not None
    assert second.observation is not None
    require_equal(first.observation, second.observation)
    require_promised(platform, first.observation)


@pytest.mark.simulator
def test_a_chunk_may_be_cut_anywhere(platform: Platform, scene: Scene) -> None:
    actions = some_actions(platform, 6)
    platform.reset(scene)
    whole = platform.apply(actions)
    platform.reset(scene)
    platform.apply(actions[:2])
    parts = platform.apply(actions[2:])
    assert whole.observation is not None
    assert parts.observation is not None
    require_equal(whole.observation, parts.observation)


@pytest.mark.simulator
def test_what_was_shown_is_not_changed_afterwards(platform: Platform, scene: Scene) -> None:
    shown = platform.reset(scene)
    kept = {role: image.copy() for role, image in shown.images.items()}
    platform.apply(some_actions(platform, 3))
    for role, image in kept.items():
        np.testing.assert_array_equal(shown.images[role], image)


@pytest.mark.simulator
def test_time_is_split_into_simulating_and_drawing(platform: Platform, scene: Scene) -> None:
    platform.reset(scene)
    applied = platform.apply(some_actions(platform, 3))
    assert applied.simulate_s > 0
    assert applied.render_s > 0


@pytest.mark.simulator
@pytest.mark.parametrize("spoil", ["nan", "column", "row", "type"])
def test_bad_actions_are_refused_and_change_nothing(
    platform: Platform, scene: Scene, spoil: str
) -> None:
    actions = some_actions(platform, 4)
    platform.reset(scene)
    with pytest.raises(BadActions):
        platform.apply(spoiled(actions, spoil))
    after_refusal = platform.apply(actions).observation
    platform.reset(scene)
    untouched = platform.apply(actions).observation
    assert after_refusal is not None
    assert untouched is not None
    require_equal(after_refusal, untouched)


@pytest.mark.simulator
def test_an_unknown_scene_is_refused_by_name(platform: Platform, scene: Scene) -> None:
    for change in ({"suite": "no_such_suite"}, {"task": 10_000}, {"init_state": 10_000}):
        with pytest.raises(UnknownName, match=r"no_such_suite|10000"):
            platform.reset(msgspec.structs.replace(scene, **change))
    require_promised(platform, platform.reset(scene))


@pytest.mark.simulator
def test_an_episode_can_be_drawn_again_and_leaves_no_trace(
    platform: Platform, scene: Scene
) -> None:
    first = platform.reset(scene)
    platform.apply(some_actions(platform, 4))
    frames = list(platform.replay(5.0))
    assert len(frames) >= 2
    for frame in frames:
        assert set(frame) == set(platform.meta.camera_roles)
        for image in frame.values():
            assert image.dtype == np.uint8
            assert image.shape == (*platform.meta.image_size, 3)
            assert image.flags.c_contiguous
    require_equal(platform.reset(scene), first)


@pytest.mark.simulator
def test_closing_twice_is_allowed(plugin: PlatformPlugin, platform: Platform) -> None:
    another = plugin.open(plugin.options())
    another.close()
    another.close()


def space_of(platform: Platform) -> ActionSpace:
    return KNOWN_SPACES[platform.meta.controls[0].action_space]


def some_actions(platform: Platform, steps: int) -> Actions:
    """Return small motions within the space's bounds, float32 [steps, action_dim]."""
    fields = space_of(platform).fields
    low = np.array([max(field.low, -1.0) for field in fields])
    high = np.array([min(field.high, 1.0) for field in fields])
    drawn = np.random.default_rng(5).uniform(-0.3, 0.3, (steps, len(fields)))
    return np.asarray((low + high) / 2 + drawn * (high - low) / 2, dtype=np.float32)


def spoiled(actions: Actions, how: str) -> Actions:
    if how == "nan":
        changed = actions.copy()
        changed[-1, -1] = np.nan
        return changed
    if how == "column":
        return np.ascontiguousarray(actions[:, :-1])
    if how == "row":
        return actions[:0]
    return actions.astype(np.float64)  # type: ignore[return-value]


def require_promised(platform: Platform, observation: Observation) -> None:
    meta = platform.meta
    assert set(observation.images) == set(meta.camera_roles)
    for image in observation.images.values():
        assert image.dtype == np.uint8
        assert image.shape == (*meta.image_size, 3)
        assert image.flags.c_contiguous
        assert image.std() > 5  # a black or plain frame is no scene
    assert {name: vector.shape for name, vector in observation.proprio.items()} == {
        name: (length,) for name, length in meta.proprio_schema.items()
    }
    for vector in observation.proprio.values():
        assert vector.dtype == np.float32
        assert np.isfinite(vector).all()
    assert observation.instruction.strip()


def require_equal(first: Observation, second: Observation) -> None:
    assert first.instruction == second.instruction
    for role, image in first.images.items():
        assert image.tobytes() == second.images[role].tobytes(), role
    for name, vector in first.proprio.items():
        assert vector.tobytes() == second.proprio[name].tobytes(), name
