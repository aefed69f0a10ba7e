# SPDX-License-Identifier: Apache-2.0
"""The known action spaces mean what the field's code means by them."""

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.spaces import KNOWN_SPACES, LIBERO_OSC_DELTA, ROBOTWIN_EEF16


def test_action_dimensions_are_those_of_the_simulators():
    assert {name: space.action_dim for name, space in KNOWN_SPACES.items()} == {
        "libero.osc_pose.delta.v1": 7,
        "robotwin.joint_action.qpos14.v1": 14,
        "robotwin.eef_pose.absolute16.v1": 16,
        "robocasa.osc_pose_base.delta12.v1": 12,
    }


def test_field_names_are_unique_within_a_space():
    for space in KNOWN_SPACES.values():
        names = [field.name for field in space.fields]
        assert len(set(names)) == len(names), space.id


def test_libero_states_its_gripper_sign_and_scale():
    assert LIBERO_OSC_DELTA.fields[-1].unit == "-1 = open, +1 = close"
    assert [field.unit for field in LIBERO_OSC_DELTA.fields[:6]] == ["0.05 m"] * 3 + ["0.5 rad"] * 3
    assert LIBERO_OSC_DELTA.control_hz == 20.0


def test_the_wire_identity_carries_the_columns_in_order():
    spec = control_spec(ROBOTWIN_EEF16)
    assert spec.action_schema[:8] == (
        "left_x",
        "left_y",
        "left_z",
        "left_quaternion_w",
        "left_quaternion_x",
        "left_quaternion_y",
        "left_quaternion_z",
        "left_gripper",
    )
    assert spec.action_schema[8] == "right_x"
    assert spec.action_dim == 16
