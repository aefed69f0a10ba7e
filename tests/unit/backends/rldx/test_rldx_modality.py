# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from rldx_native_server import ACTION, KITCHEN_VIDEO, STATE, modality

from rpent_box.backends.rldx.modality import read_modality
from rpent_box.errors import IncompatibleWorker, ProtocolMismatch


def told(**changed):
    return {
        name: {
            "__ModalityConfig_class__": True,
            "as_json": {"delta_indices": deltas, "modality_keys": keys, "action_configs": None},
        }
        for name, (deltas, keys) in modality(**changed).items()
    }


def test_robocasa365s_names_become_our_roles_and_proprio():
    read = read_modality(told())
    assert read.camera_roles == ("agentview_left", "agentview_right", "wrist")
    assert read.proprio_schema == {
        "base_to_eef_position": 3,
        "base_to_eef_quaternion_xyzw": 4,
        "gripper_qpos": 2,
        "base_position": 3,
        "base_quaternion_xyzw": 4,
    }
    assert (read.horizon, read.steps_ago) == (16, (0,))


def test_the_kitchens_names_are_the_same_cameras():
    kitchen = read_modality(told(video=KITCHEN_VIDEO, instruction="annotation.human.action.task"))
    assert kitchen.camera_roles == read_modality(told()).camera_roles
    assert kitchen.language == "annotation.human.action.task"


def test_frames_of_earlier_control_steps_have_roles_of_their_own_behind_those_of_now():
    read = read_modality(told(deltas=(-6, -4, -2, 0)))
    assert read.steps_ago == (6, 4, 2, 0)
    assert read.camera_roles[:4] == (
        "agentview_left",
        "agentview_right",
        "wrist",
        "agentview_left_2_steps_ago",
    )
    assert read.camera_roles[-1] == "wrist_6_steps_ago"
    assert len(set(read.camera_roles)) == 12


def test_the_order_of_the_checkpoint_is_kept():
    names = list(reversed(ACTION))
    read = read_modality(told(action=(list(range(4)), names), state=([0], list(reversed(STATE)))))
    assert read.actions == tuple(names)
    assert read.horizon == 4
    assert read.states == tuple(reversed(STATE))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"video": ("ego_view", "left_view", "right_view")}, "the camera ego_view"),
        ({"video": KITCHEN_VIDEO[:2]}, "the cameras agentview_left, agentview_right;"),
        ({"video": (*KITCHEN_VIDEO, "robot0_eye_in_hand")}, "wrist, wrist"),
        ({"state": ([0], ["gripper_qpos"])}, "the state vectors gripper_qpos"),
        ({"state": ([-1, 0], list(STATE))}, r"state at the steps \[-1, 0\]"),
        ({"action": ([0, 1], ["eef_pos_delta"])}, "the action parts eef_pos_delta"),
        ({"action": ([0, 2], list(ACTION))}, r"actions for the steps \[0, 2\]"),
        ({"action": ([], list(ACTION))}, r"actions for the steps \[\]"),
        ({"language": ([0], ["one", "two"])}, "2 instructions"),
        ({"deltas": (0, -2)}, r"frames of the steps \[0, -2\]"),
        ({"deltas": (-2, -1)}, r"frames of the steps \[-2, -1\]"),
        ({"deltas": (0, 1)}, r"frames of the steps \[0, 1\]"),
        ({"deltas": ()}, r"frames of the steps \[\]"),
        ({"tactile": ([0], ["palm"])}, "language, tactile; RoboCasa has action"),
    ],
)
def test_a_model_of_another_robot_is_refused_and_what_differs_is_named(changed, named):
    with pytest.raises(IncompatibleWorker, match=named) as caught:
        read_modality(told(**changed))
    assert "not one for RoboCasa" in caught.value.message


@pytest.mark.parametrize("answer", [None, [], "ok", {1: 2}, {"video": 3}, {"video": {"as": 1}}])
def test_what_is_no_description_is_refused(answer):
    with pytest.raises(ProtocolMismatch, match="RLDX server"):
        read_modality(answer)
