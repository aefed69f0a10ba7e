# SPDX-License-Identifier: Apache-2.0
"""What lies between a platform and a model, asked with a model that can be watched and spoilt.

Every backend is asked through its fake: what it is shown must reach the model, and a broken answer
must not reach the robot.
"""

import itertools
import math
import time

import numpy as np
import pytest
from msgspec.structs import fields, replace
from subjects import FAKED, key, name_of, seen_by, served

from rpent_box.contracts.checks import check_actions
from rpent_box.errors import BadActions, DeadlineExceeded

SLOW_S = 1.0
MOMENT = key(0)
MOMENTS = [
    MOMENT,
    key(1),
    replace(MOMENT, seed=1),
    replace(MOMENT, suite="other"),
    replace(MOMENT, task=1),
    replace(MOMENT, episode=2),
]


@pytest.fixture(scope="module", params=FAKED, ids=name_of)
def subject(request):
    with served(*request.param, fake=True) as subject:
        yield subject


@pytest.fixture(autouse=True)
def sound(subject):
    subject.spoiler.stop()
    yield
    subject.spoiler.stop()


def test_every_camera_that_it_declares_reaches_the_model(subject):
    seen = seen_by(subject)
    plain = answer_to(subject, seen)
    for role, image in seen.images.items():
        brighter = {**seen.images, role: image // 2 + 100}
        assert differs(answer_to(subject, replace(seen, images=brighter)), plain), role


def test_every_camera_keeps_its_own_place(subject):
    seen = seen_by(subject)
    roles = list(seen.images)
    if len(roles) == 1:
        pytest.skip(f"{subject.spec.name} looks through one camera")
    swapped = dict(zip(roles, [seen.images[role] for role in (*roles[1:], roles[0])], strict=True))
    assert differs(answer_to(subject, replace(seen, images=swapped)), answer_to(subject, seen))


def test_every_proprio_that_it_declares_reaches_the_model(subject):
    seen = seen_by(subject)
    plain = answer_to(subject, seen)
    for name in seen.proprio:
        moved = {**seen.proprio, name: moved_from(name, seen.proprio[name])}
        assert differs(answer_to(subject, replace(seen, proprio=moved)), plain), name


def test_the_instruction_reaches_the_model(subject):
    seen = seen_by(subject)
    told = replace(seen, instruction="put the bowl on the stove")
    assert differs(answer_to(subject, told), answer_to(subject, seen))


def test_a_frame_is_no_mirror_image_of_itself(subject):
    seen = seen_by(subject)
    for axis in (0, 1):
        turned = {
            role: np.ascontiguousarray(np.flip(image, axis)) for role, image in seen.images.items()
        }
        assert differs(answer_to(subject, replace(seen, images=turned)), answer_to(subject, seen))


def test_every_moment_has_noise_of_its_own_and_the_same_each_time(subject):
    if subject.spec.borrows:
        pytest.skip(f"{subject.spec.name}'s own service draws its noise")
    seen = seen_by(subject)
    chunks = [answer_to(subject, seen, moment) for moment in MOMENTS * 2]
    first, again = chunks[: len(MOMENTS)], chunks[len(MOMENTS) :]
    np.testing.assert_array_equal(first, again)
    takes_noise = "seed" in {field.name for field in fields(subject.spec.options)}
    for one, other in itertools.combinations(first, 2):
        assert differs(one, other) == takes_noise


@pytest.mark.parametrize(
    ("row", "column"), [(0, -1), (0, 0), (-1, -1), (-1, 0)], ids=["gripper", "first", "end", "late"]
)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
def test_a_number_that_is_none_is_refused_wherever_it_stands(subject, number, row, column):
    def spoil(raw):
        spoilt = np.array(raw)
        spoilt[row, column] = number
        return spoilt

    refused_and_recovered(subject, spoil)


@pytest.mark.parametrize(
    "spoil",
    [lambda raw: raw[:, :-1], lambda raw: raw[:0], lambda raw: raw[:, :0]],
    ids=["narrow", "empty", "no columns"],
)
def test_an_answer_of_another_shape_is_refused(subject, spoil):
    refused_and_recovered(subject, spoil)


def test_a_model_that_is_too_slow_is_given_up_and_asked_again(subject):
    def slowly(raw):
        time.sleep(SLOW_S)
        return raw

    hurried = subject.client(prediction_timeout_s=SLOW_S / 4)
    subject.spoiler.by = slowly
    with pytest.raises(DeadlineExceeded):
        hurried.predict(seen_by(subject), episode=MOMENT)
    subject.spoiler.stop()
    answer_to(subject, seen_by(subject))


def refused_and_recovered(subject, spoil):
    subject.spoiler.by = spoil
    with pytest.raises(BadActions):
        answer_to(subject, seen_by(subject))
    subject.spoiler.stop()
    answer_to(subject, seen_by(subject))


def answer_to(subject, seen, moment=MOMENT):
    """A chunk that nothing went before."""
    client = subject.client()
    client.reset()
    chunk = client.predict(seen, episode=moment)
    check_actions(chunk, client.meta)
    client.close()
    return chunk.actions


def moved_from(name, vector):
    """Another pose: a quaternion must stay one."""
    if "quaternion" in name:
        return np.roll(vector, 1)
    return vector + np.float32(0.125)


def differs(actions, others):
    return bool(np.abs(actions - others).max() > 1e-4)
