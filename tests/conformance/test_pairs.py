# SPDX-License-Identifier: Apache-2.0
"""Each backend's adapter meets what its platforms really show, and really moves their robots.

The models are fakes, so what they answer is chosen here: a motion whose end is known. These tests
run in a platform's own Python; elsewhere they are skipped with the command that makes one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import numpy as np
import pytest
from fast_wam_parts import calibration
from numpy.typing import NDArray
from platform_subjects import Running, missing_assets, opened

from rpent_box.backends.adapter import Adapter
from rpent_box.backends.fast_wam.adapter import ADAPTERS as FAST_WAM
from rpent_box.backends.fast_wam.calibration import Calibration
from rpent_box.backends.lingbot.adapter import ADAPTERS as LINGBOT
from rpent_box.backends.rldx.adapter import ADAPTERS as RLDX
from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.names import COLUMNS, PROPRIO
from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.contracts.observation import Image, Observation
from rpent_box.errors import UnknownName
from rpent_box.plugins import backend_names, find_backend, find_platform
from rpent_box.sim.platform import model_needs
from rpent_box.worker.backend import Backend, PredictionInput

PAIRS = sorted(
    (platform, backend)
    for backend in backend_names()
    for platform in find_backend(backend).platforms
)
MOMENT = EpisodeKey(seed=0, suite="pairs", task=0, episode=0, chunk=0)
TRACKED_RAD = 0.01
REACHED_M = 0.003
REACHED_RAD = 0.01
ARMS = np.delete(np.arange(14), [6, 13])
"""The columns of RoboTwin's joints that are no grippers."""


class Stage:
    """One platform open at a time: the pairs come sorted by platform."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._running: Running | None = None

    def on(self, name: str) -> Running:
        """Return the platform called `name`, running; skips where it cannot."""
        if self._running is None or self._running.plugin.name != name:
            self.clear()
            try:
                plugin = find_platform(name)
            except UnknownName as error:
                pytest.skip(f"{error.message} in this Python")
            self._running = self._open.enter_context(opened(plugin))
        return self._running

    def clear(self) -> None:
        self._running = None
        self._open.close()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    found = Stage()
    yield found
    found.clear()


@pytest.mark.parametrize("platform", sorted({platform for platform, _ in PAIRS}))
def test_the_pairs_meet_scenes_made_of_the_platforms_own_assets(platform: str) -> None:
    try:
        missing = missing_assets(find_platform(platform))
    except UnknownName as error:
        pytest.skip(f"{error.message} in this Python")
    if missing is not None:
        pytest.skip(f"{platform} is met with assets for tests, or not at all: {missing}")


# --- every pair ---------------------------------------------------------------------------------


@pytest.mark.simulator
@pytest.mark.parametrize(("platform", "backend"), PAIRS)
def test_a_backend_is_shown_the_real_thing_and_its_actions_are_executed(
    stage: Stage, platform: str, backend: str
) -> None:
    running = stage.on(platform)
    with fake(backend, platform) as model:
        assert explain_mismatch(model.meta, running.platform.meta) == []
        running.platform.prepare(model_needs(model.meta))
        seen = for_model(running.platform.reset(running.scene), model.meta)
        check_observation(seen, model.meta)
        model.reset("pair")
        chunk = model.predict(PredictionInput(observation=seen, session="pair", episode=MOMENT))
        check_actions(chunk, model.meta)
        model.drop("pair")
    if platform == "robotwin":
        return  # a fake's numbers are no targets that two arms could reach; see below
    applied = running.platform.apply(chunk.actions[:3])
    assert applied.steps == min(3, len(chunk.actions))
    assert applied.observation is not None
    role = model.meta.camera_roles[0]
    assert applied.observation.images[role].tobytes() != seen.images[role].tobytes()


# --- fast-wam on RoboTwin: joint targets --------------------------------------------------------


@pytest.fixture
def joints(stage: Stage) -> Running:
    running = stage.on("robotwin")
    meta = meta_of("fast-wam", FAST_WAM["robotwin"])
    assert explain_mismatch(meta, running.platform.meta) == []
    running.platform.prepare(model_needs(meta))
    return running


@pytest.mark.simulator
def test_fast_wams_picture_is_the_head_above_the_left_and_the_right_wrist(joints: Running) -> None:
    seen = joints.platform.reset(joints.scene)
    given = FAST_WAM["robotwin"].encode(seen, around(seen))
    picture = ((given.image[0].transpose(1, 2, 0) + 1) * 255 / 2).round()
    assert picture.shape == (384, 320, 3)
    parts = {
        "head": picture[:256],
        "left_wrist": picture[256:, :160],
        "right_wrist": picture[256:, 160:],
    }
    for role, part in parts.items():
        off = {other: _apart(part, frame) for other, frame in seen.images.items()}
        assert min(off, key=lambda other: off[other]) == role, off
    assert seen.instruction in given.prompt
    targets = around(seen).state.backward(given.proprio[0])
    np.testing.assert_allclose(targets, seen.proprio["joint_targets"], atol=1e-5)


@pytest.mark.simulator
def test_fast_wams_joint_targets_are_where_the_arms_go(joints: Running) -> None:
    first = joints.platform.reset(joints.scene)
    wanted = np.array(first.proprio["joint_targets"])
    wanted[[0, 5, 7, 12]] += [0.15, 0.2, -0.15, -0.2]
    wanted[6] = 0.5
    last = play_joints(joints, first, wanted)
    np.testing.assert_allclose(last.proprio["joint_targets"], wanted, atol=1e-3)
    np.testing.assert_allclose(last.proprio["joint_positions"], wanted[ARMS], atol=TRACKED_RAD)
    np.testing.assert_allclose(last.proprio["left_gripper"], [0.5], atol=1e-3)


@pytest.mark.simulator
@pytest.mark.parametrize(("side", "column"), [("left", 0), ("right", 7)])
def test_a_wrists_camera_moves_with_its_own_arm(joints: Running, side: str, column: int) -> None:
    first = joints.platform.reset(joints.scene)
    wanted = np.array(first.proprio["joint_targets"])
    wanted[column] += 0.3
    last = play_joints(joints, first, wanted)
    changed = {role: _apart(frame, last.images[role]) for role, frame in first.images.items()}
    other = "right" if side == "left" else "left"
    assert changed[f"{side}_wrist"] > 4 * changed[f"{other}_wrist"], changed
    moved = {arm: _moved(first, last, arm) for arm in ("left", "right")}
    assert moved[side] > 0.02
    assert moved[other] < REACHED_M


# --- lingbot on RoboTwin: poses of the hands ----------------------------------------------------


@pytest.fixture
def hands(stage: Stage) -> Running:
    running = stage.on("robotwin")
    meta = meta_of("lingbot", LINGBOT["robotwin"])
    assert explain_mismatch(meta, running.platform.meta) == []
    running.platform.prepare(model_needs(meta))
    return running


@pytest.mark.simulator
def test_lingbots_request_holds_the_frames_and_poses_under_its_own_names(hands: Running) -> None:
    seen = hands.platform.reset(hands.scene)
    request = LINGBOT["robotwin"].encode(seen, 1)
    for camera, role in (
        ("cam_high", "head"),
        ("cam_left_wrist", "left_wrist"),
        ("cam_right_wrist", "right_wrist"),
    ):
        np.testing.assert_array_equal(request[f"observation.images.{camera}"], seen.images[role])
    state = request["observation.state"]
    np.testing.assert_array_equal(state[0:7], seen.proprio["left_eef_pose"])
    np.testing.assert_array_equal(state[8:15], seen.proprio["right_eef_pose"])
    assert state[0] < state[8], "x grows to the right: the left hand comes first"
    assert request["task"] == seen.instruction


@pytest.mark.simulator
@pytest.mark.parametrize(("side", "start"), [("left", 0), ("right", 8)])
def test_lingbots_poses_are_where_the_named_hand_goes(
    hands: Running, side: str, start: int
) -> None:
    first = hands.platform.reset(hands.scene)
    adapter = LINGBOT["robotwin"]
    wanted = adapter.encode(first, 1)["observation.state"].astype(np.float64)
    wanted[start : start + 3] += [0.02, 0.03, 0.04]
    answer = np.tile(wanted, (2, 1))
    for columns in (slice(3, 7), slice(11, 15)):
        answer[:, columns] *= 1.03  # a network's quaternions are nearly of unit length
    last = act(hands, adapter.decode(answer, 2))
    for arm, columns in (("left", slice(0, 7)), ("right", slice(8, 15))):
        reached, asked = last.proprio[f"{arm}_eef_pose"], wanted[columns]
        np.testing.assert_allclose(reached[:3], asked[:3], atol=REACHED_M, err_msg=arm)
        assert _angle(reached[3:], asked[3:]) < REACHED_RAD, arm
    other = "right" if side == "left" else "left"
    assert _moved(first, last, side) > 0.05
    assert _moved(first, last, other) < REACHED_M
    role = f"{side}_wrist"
    assert _apart(first.images[role], last.images[role]) > 1


# --- rldx on RoboCasa ---------------------------------------------------------------------------

LOOKS_BACK = (6, 4, 2, 0)
RLDX_MODALITY = Modality(
    cameras=("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand"),
    steps_ago=LOOKS_BACK,
    states=tuple(PROPRIO),
    language="annotation.human.task_description",
    actions=tuple(COLUMNS),
    horizon=8,
)


def test_rldx_meets_what_robocasa_declares() -> None:
    """Needs no simulator: shapes and names as the plugin declares them, the pixels are noise."""
    try:
        meta = find_platform("robocasa").meta
    except UnknownName as error:
        pytest.skip(f"{error.message} in this Python")
    assert explain_mismatch(rldx_meta(), meta) == []
    require_native(declared(meta))


@pytest.mark.simulator
def test_rldx_is_shown_robocasas_frames_of_now_and_before(stage: Stage) -> None:
    running = stage.on("robocasa")
    running.platform.prepare(model_needs(rldx_meta()))
    shown = [running.platform.reset(running.scene)]
    require_native(shown[0])
    for _ in range(max(LOOKS_BACK)):
        shown.append(act(running, rldx_actions(end_effector_position=[0.6, 0, 0])[:1]))
    native = require_native(shown[-1])
    for place, steps in enumerate(LOOKS_BACK):
        frame = native["video"]["robot0_eye_in_hand"][0, place]
        np.testing.assert_array_equal(frame, shown[-1 - steps].images["wrist"], f"{steps} ago")


@pytest.mark.simulator
def test_rldxs_hand_and_gripper_go_where_its_answer_says(stage: Stage) -> None:
    running = stage.on("robocasa")
    running.platform.prepare(model_needs(rldx_meta()))
    seen = running.platform.reset(running.scene)
    farthest = 0.05 * 0.5 * RLDX_MODALITY.horizon
    for axis in range(3):
        along = [0.5 if other == axis else 0.0 for other in range(3)]
        before, seen = seen, act(running, rldx_actions(end_effector_position=along))
        name = "base_to_eef_position"
        moved = seen.proprio[name] - before.proprio[name]
        assert int(np.argmax(np.abs(moved))) == axis, moved
        assert 0.15 * farthest < moved[axis] < farthest, moved  # it lags behind its targets
    for closes, narrower in ((0.0, False), (1.0, True)):
        before, seen = seen, act(running, rldx_actions(gripper_close=[closes]))
        widths = [float(np.ptp(one.proprio["gripper_qpos"])) for one in (before, seen)]
        assert (widths[1] < widths[0] - 0.01) == narrower, widths


# --- parts --------------------------------------------------------------------------------------


def fake(backend: str, platform: str) -> AbstractContextManager[Backend]:
    """Return the backend's own class and adapter around a model that is none."""
    name = f"{backend.replace('-', '_')}_fake"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise
        pytest.skip(
            f"{backend} needs {error.name}, which is not in this Python: "
            f"pip install 'rpent-box[adapters,{backend}]'"
        )
    found: AbstractContextManager[Backend] = module.fake_backend(platform)
    return found


def for_model(seen: Observation, meta: ModelMeta) -> Observation:
    """Return what of `seen` is sent to the model."""
    return Observation(
        images={role: seen.images[role] for role in meta.camera_roles},
        proprio={name: seen.proprio[name] for name in meta.proprio_schema},
        instruction=seen.instruction,
    )


def meta_of(backend: str, adapter: Adapter) -> ModelMeta:
    """Return what a model says of itself that has `adapter`."""
    return ModelMeta(
        kind=find_backend(backend).kind,
        backend=backend,
        checkpoint="none",
        control=control_spec(adapter.space),
        camera_roles=adapter.camera_roles,
        proprio_schema=adapter.proprio_schema,
        action_horizon=8,
        execute_steps=8,
    )


def around(seen: Observation) -> Calibration:
    """Return fast-wam's calibration by statistics of a data set around `seen`."""
    mean = seen.proprio["joint_targets"].astype(np.float64)
    part = {
        "global_mean": mean.tolist(),
        "global_std": [0.3] * 14,
        **{f"global_{name}": (mean - 1).tolist() for name in ("min", "q01")},
        **{f"global_{name}": (mean + 1).tolist() for name in ("max", "q99")},
    }
    return calibration("robotwin", values={"state": {"default": part}, "action": {"default": part}})


def play_joints(running: Running, first: Observation, wanted: NDArray[np.float32]) -> Observation:
    """Let fast-wam's model answer a way to `wanted` [14], and return what is seen at its end."""
    shared = around(first)
    start = first.proprio["joint_targets"]
    share = np.minimum(np.arange(1, shared.action_horizon + 1) / 4, 1)[:, np.newaxis]
    way = (start + share * (wanted - start)).astype(np.float32)
    actions = FAST_WAM["robotwin"].decode(shared.action.forward(way), shared)
    return act(running, np.ascontiguousarray(actions[:5]))


def act(running: Running, actions: NDArray[np.float32]) -> Observation:
    """Execute all of `actions` and return what is seen afterwards."""
    applied = running.platform.apply(actions)
    assert applied.steps == len(actions)
    assert applied.observation is not None
    return applied.observation


def rldx_meta() -> ModelMeta:
    return ModelMeta(
        kind="vla",
        backend="rldx",
        checkpoint="none",
        control=control_spec(RLDX["robocasa"].space),
        camera_roles=RLDX_MODALITY.camera_roles,
        proprio_schema=RLDX_MODALITY.proprio_schema,
        action_horizon=RLDX_MODALITY.horizon,
        execute_steps=RLDX_MODALITY.horizon,
    )


def rldx_actions(**parts: list[float]) -> NDArray[np.float32]:
    """Decode an answer in which these parts are the same in every step and all else is at rest."""
    row = np.zeros(12, np.float32)
    for name, values in parts.items():
        row[COLUMNS[name]] = values
    answer = np.tile(row, (RLDX_MODALITY.horizon, 1))
    return RLDX["robocasa"].decode(answer, RLDX_MODALITY)


def declared(meta: PlatformMeta) -> Observation:
    """Return noise in the shapes that `meta` declares."""
    rng = np.random.default_rng(0)
    return Observation(
        images={
            role: rng.integers(0, 256, (*meta.image_size, 3), np.uint8)
            for role in meta.camera_roles
        },
        proprio={
            name: rng.standard_normal(length).astype(np.float32)
            for name, length in meta.proprio_schema.items()
        },
        instruction="open the drawer",
    )


def require_native(seen: Observation) -> dict[str, dict]:
    """Encode `seen` for RLDX, and check what comes out against what it was trained on."""
    check_observation(seen, rldx_meta())
    native = RLDX["robocasa"].encode(seen, RLDX_MODALITY)
    for camera in RLDX_MODALITY.cameras:
        assert native["video"][camera].shape == (1, len(LOOKS_BACK), 256, 256, 3)
        assert native["video"][camera].dtype == np.uint8
    for state, (name, length) in PROPRIO.items():
        assert native["state"][state].shape == (1, 1, length)
        np.testing.assert_array_equal(native["state"][state][0, 0], seen.proprio[name])
    assert native["language"] == {RLDX_MODALITY.language: [[seen.instruction]]}
    return native


def _apart(one: NDArray[np.floating] | Image, other: NDArray[np.floating] | Image) -> float:
    """Mean difference in grey levels of two pictures of any size, by blocks of 16 x 16."""
    return float(np.abs(_blocks(one) - _blocks(other)).mean())


def _blocks(picture: NDArray[np.floating] | Image) -> NDArray[np.float64]:
    height, width = picture.shape[0] // 16, picture.shape[1] // 16
    cut = picture[: height * 16, : width * 16].astype(np.float64)
    return cut.reshape(16, height, 16, width, 3).mean(axis=(1, 3))


def _moved(first: Observation, last: Observation, arm: str) -> float:
    """How far the hand went, in metres."""
    name = f"{arm}_eef_pose"
    return float(np.linalg.norm(last.proprio[name][:3] - first.proprio[name][:3]))


def _angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Between two orientations, in radians; a quaternion and its negative are one orientation."""
    return float(2 * np.arccos(min(1.0, abs(float(np.dot(one, other))))))
