# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace
from rldx_native_server import ACTION, KITCHEN_VIDEO, LANGUAGE, STATE
from rldx_parts import PAST, a_modality, answer, noise

from rpent_box.backends.rldx.adapter import ADAPTERS
from rpent_box.backends.rldx.adapter.decode import decode, in_native_order, joined
from rpent_box.backends.rldx.adapter.encode import encode, flattened
from rpent_box.backends.rldx.names import COLUMNS
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import BadActions, BadObservation

NOW = a_modality()


def test_every_array_has_the_shape_and_type_that_the_server_wants():
    native = encode(noise(NOW), NOW)
    assert list(native["video"]) == list(NOW.cameras)
    assert {frames.shape for frames in native["video"].values()} == {(1, 1, 256, 256, 3)}
    assert {frames.dtype for frames in native["video"].values()} == {np.dtype(np.uint8)}
    assert {name: vector.shape for name, vector in native["state"].items()} == {
        name: (1, 1, length) for name, length in STATE.items()
    }
    assert {vector.dtype for vector in native["state"].values()} == {np.dtype(np.float32)}
    assert native["language"] == {LANGUAGE: [["open the drawer"]]}


def test_pixels_and_vectors_go_through_unchanged():
    shown = noise(NOW, seed=3)
    native = encode(shown, NOW)
    assert np.array_equal(
        native["video"]["robot0_agentview_right"][0, 0], shown.images["agentview_right"]
    )
    assert np.array_equal(native["video"]["robot0_eye_in_hand"][0, 0], shown.images["wrist"])
    assert np.array_equal(
        native["state"]["base_rotation"][0, 0], shown.proprio["base_quaternion_xyzw"]
    )
    assert np.array_equal(
        native["state"]["end_effector_position_relative"][0, 0],
        shown.proprio["base_to_eef_position"],
    )


def test_earlier_frames_come_first_and_that_of_now_last():
    modality = a_modality(steps_ago=PAST)
    shown = noise(modality)
    frames = encode(shown, modality)["video"]["robot0_eye_in_hand"][0]
    assert frames.shape == (4, 256, 256, 3)
    for frame, role in zip(
        frames,
        ("wrist_6_steps_ago", "wrist_4_steps_ago", "wrist_2_steps_ago", "wrist"),
        strict=True,
    ):
        assert np.array_equal(frame, shown.images[role])


def test_frames_are_copied_for_they_are_valid_only_while_the_model_predicts():
    shown = noise(NOW)
    native = encode(shown, NOW)
    for image in shown.images.values():
        image[:] = 0
    assert all(frames.any() for frames in native["video"].values())


def test_a_kitchens_checkpoint_is_sent_its_own_names():
    modality = a_modality(cameras=KITCHEN_VIDEO)
    shown = noise(modality)
    video = encode(shown, modality)["video"]
    assert list(video) == list(KITCHEN_VIDEO)
    assert np.array_equal(video["wrist_view"][0, 0], shown.images["wrist"])


def test_flat_names_say_the_same():
    native = encode(noise(NOW), NOW)
    flat = flattened(native)
    assert flat[LANGUAGE] == ["open the drawer"]
    assert flat["video.robot0_eye_in_hand"] is native["video"]["robot0_eye_in_hand"]
    assert flat["state.gripper_qpos"] is native["state"]["gripper_qpos"]
    assert len(flat) == 9


@pytest.mark.parametrize("size", [(128, 128), (256, 320), (256, 255), (1, 1)])
def test_frames_of_another_size_are_refused_for_they_would_be_cropped_silently(size):
    with pytest.raises(BadObservation, match=r"shows \[\d+, \d+, 3\]; rldx was trained on"):
        encode(noise(NOW, size=size), NOW)


def test_the_parts_of_an_answer_become_the_columns_of_the_action_space():
    parts = answer()
    values = joined(parts, NOW)
    assert values.shape == (16, 12)
    for name, columns in COLUMNS.items():
        assert np.array_equal(values[:, columns], parts[name][0])
    names = [field.name for field in ROBOCASA_12.fields]
    for name, columns in COLUMNS.items():
        assert all(column.startswith(name) for column in names[columns])


def test_flat_answers_are_read_too_and_the_order_of_their_names_does_not_matter():
    parts = answer(prefix="action.")
    backwards = dict(reversed(parts.items()))
    assert np.array_equal(joined(backwards, NOW), joined(answer(), NOW))


@given(arrays(np.float32, (16, 12), elements=st.floats(-4, 4, width=32)))
def test_only_gripper_and_mode_are_changed_and_only_to_their_two_values(values):
    actions = decode(values, NOW)
    assert actions.dtype == np.float32
    for column in range(12):
        if column in (6, 11):
            wanted = [-1.0 if value < 0.5 else 1.0 for value in values[:, column]]
            assert actions[:, column].tolist() == wanted
        else:
            assert np.array_equal(actions[:, column], values[:, column])


def test_one_half_itself_closes_the_gripper():
    values = np.full((16, 12), 0.5, np.float32)
    values[1:] = np.nextafter(np.float32(0.5), np.float32(0))
    actions = decode(values, NOW)
    assert actions[0, 6] == actions[0, 11] == 1.0
    assert (actions[1:, [6, 11]] == -1.0).all()


def test_decoding_leaves_the_models_own_values_as_they_are():
    values = joined(answer(), NOW)
    before = values.copy()
    decode(values, NOW)
    assert np.array_equal(values, before)


@given(st.permutations(list(ACTION)))
def test_a_prefix_is_written_in_the_checkpoints_own_order(order):
    modality = replace(NOW, actions=tuple(order))
    parts = answer()
    rows = in_native_order(joined(parts, modality), modality)
    assert np.array_equal(rows, np.concatenate([parts[name][0] for name in order], axis=1))
    assert rows.dtype == np.float32


@pytest.mark.parametrize("name", list(ACTION))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused_before_a_threshold_could_hide_it(name, bad):
    for place in (0, -1):
        parts = answer()
        parts[name][0, place, -1] = bad
        with pytest.raises(BadActions, match=name):
            joined(parts, NOW)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda parts: parts.pop("control_mode"), "wanted base_motion, control_mode"),
        (lambda parts: parts.update(extra=parts["base_motion"]), "extra"),
        (lambda parts: parts.update(base_motion=parts["base_motion"][:, :, :3]), "base_motion"),
        (lambda parts: parts.update(base_motion=parts["base_motion"][:, :15]), "at least 16"),
        (lambda parts: parts.update(base_motion=parts["base_motion"][:, :0]), "at least 16"),
        (lambda parts: parts.update(base_motion=np.zeros((1, 17, 4), np.float32)), "17 steps"),
        (lambda parts: parts.update(base_motion=np.zeros((2, 16, 4), np.float32)), r"\[2, 16, 4\]"),
        (lambda parts: parts.update(base_motion=parts["base_motion"][0]), r"\[16, 4\]"),
        (lambda parts: parts.update(base_motion=[[0.0] * 4] * 16), "list"),
        (lambda parts: parts.update(base_motion=np.zeros((1, 16, 4), np.int64)), "int64"),
        (lambda parts: parts.clear(), "nothing"),
    ],
)
def test_an_answer_of_another_form_is_refused(change, named):
    parts = answer()
    change(parts)
    with pytest.raises(BadActions, match=named):
        joined(parts, NOW)


def test_an_answer_that_is_no_map_is_refused():
    with pytest.raises(BadActions, match="answered list"):
        joined([], NOW)


def test_values_that_float32_cannot_hold_are_refused():
    values = joined(answer(dtype=np.float64), NOW)
    values[3, 0] = 1e300
    with pytest.raises(BadActions, match="float32"):
        decode(values, NOW)


def test_the_adapter_speaks_the_action_space_that_the_spec_lists():
    adapter = ADAPTERS["robocasa"]
    assert adapter.space == ROBOCASA_12
    assert adapter.camera_roles == NOW.camera_roles
    assert adapter.proprio_schema == NOW.proprio_schema
