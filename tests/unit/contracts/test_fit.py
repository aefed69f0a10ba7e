# SPDX-License-Identifier: Apache-2.0
import pytest
from fake_models import CONTROL, META, PLATFORM
from msgspec.structs import replace

from rpent_box.contracts.fit import explain_mismatch, require_fit
from rpent_box.errors import IncompatibleWorker


def refused(model, *reasons):
    with pytest.raises(IncompatibleWorker) as caught:
        require_fit(model, PLATFORM, fitting=("mini-wam", "pi05"))
    text = str(caught.value)
    assert text.startswith("fake (built-in) does not fit fakeland: ")
    assert "Backends that fit fakeland: mini-wam, pi05." in text
    for reason in reasons:
        assert reason in text
    assert len(explain_mismatch(model, PLATFORM)) == len(reasons)


def control(**changes):
    return replace(META, control=replace(CONTROL, **changes))


def test_a_pair_that_fits_is_let_through():
    assert explain_mismatch(META, PLATFORM) == []
    require_fit(META, PLATFORM)


def test_a_model_may_look_at_less_than_the_platform_shows():
    less = replace(META, camera_roles=("wrist",), proprio_schema={"gripper_qpos": 2})
    require_fit(less, PLATFORM)


def test_another_action_space_is_refused():
    other = control(action_space="robotwin.joint_action.qpos14.v1")
    refused(
        other,
        "the model acts in robotwin.joint_action.qpos14.v1, but fakeland moves in "
        "libero.osc_pose.delta.v1",
    )


def test_the_same_space_for_another_body_is_refused():
    refused(control(embodiment="ur5"), "embodiment is 'ur5', the platform's is 'libero_7d'")


def test_the_same_space_with_its_columns_in_another_order_is_refused():
    swapped = tuple(reversed(CONTROL.action_schema))
    refused(control(action_schema=swapped), "action_schema is ('gripper', ")


def test_the_same_space_under_another_controller_is_refused():
    refused(control(action_type="qpos"), "action_type is 'qpos', the platform's is None")


def test_a_platform_with_two_controllers_takes_a_model_of_either():
    second = replace(CONTROL, action_space="other.v1")
    both = replace(PLATFORM, controls=(second, CONTROL))
    assert explain_mismatch(META, both) == []
    assert explain_mismatch(control(action_space="other.v1"), both) == []


def test_a_camera_that_is_not_there_is_refused():
    refused(
        replace(META, camera_roles=("primary", "head")),
        "the model looks through head, but the platform's cameras are primary, wrist",
    )


def test_a_proprio_that_is_not_measured_is_refused():
    refused(
        replace(META, proprio_schema={"joint_targets": 14}),
        "the model needs proprio joint_targets, but the platform measures eef_position",
    )


def test_a_proprio_of_another_length_is_refused():
    refused(
        replace(META, proprio_schema={"eef_position": 4}),
        "proprio eef_position has 3 numbers, the model wants 4",
    )


@pytest.mark.parametrize("execute_steps", [0, -1, 5])
def test_a_chunk_size_outside_the_horizon_is_refused(execute_steps):
    refused(
        replace(META, execute_steps=execute_steps),
        f"execute_steps is {execute_steps}, outside 1 to the action horizon 4",
    )


def test_everything_that_is_wrong_is_told_at_once():
    wrong = replace(control(embodiment="ur5"), camera_roles=("head",), execute_steps=9)
    refused(wrong, "embodiment is 'ur5'", "looks through head", "execute_steps is 9")


def test_without_any_that_fit_it_says_so():
    with pytest.raises(IncompatibleWorker, match="none that is installed"):
        require_fit(replace(META, camera_roles=("head",)), PLATFORM)
