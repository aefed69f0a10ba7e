# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.sim.foresight import Foresight
from rpent_box.sim.lettering import LETTER_HEIGHT, LETTER_WIDTH, write_text
from rpent_box.sim.overlay import (
    CAPTION_HEIGHT,
    FAINT,
    PLAYED,
    PRESENT,
    VALUE_HEIGHT,
    VALUE_LEFT,
    Overlay,
    enlarged,
)
from rpent_box.sim.recording import Recording, step_of_frame
from rpent_box.sim.video import side_by_side, write_video

SIZE = 256
CAMERAS = ("primary", "wrist")


def grey(level, size=SIZE):
    return np.full((size, size, 3), level, np.uint8)


def seen(level):
    images = {"primary": grey(level), "wrist": grey(255 - level)}
    return Observation(images=images, proprio={}, instruction="go")


def foresight(*, frames=True, values=(0.25, 0.5, 1.0)):
    """Return three chunks of ten steps: 100, 110, 120 expected; 10, 20 came; the last is cut."""
    made = Foresight()
    for number, value in enumerate(values):
        future = {"primary": grey(100 + 10 * number, 64)} if frames else None
        chunk = ActionChunk(
            actions=np.zeros((10, 7), np.float32), future_observation=future, value=value
        )
        made.came(10 * number, seen(10 * number))
        made.predicted(10 * number, chunk, seen(10 * number))
    return made


def overlay(made, steps=26):
    return Overlay(made, steps=steps, roles=CAMERAS, fps=10.0, control_hz=20.0)


def draw(one, frame, level=77):
    images = seen(level).images
    return one.draw(frame, images, side_by_side([images[role] for role in CAMERAS]))


def frames_of(picture):
    """Return the brightness of the expected and the seen frame."""
    middle = SIZE + CAPTION_HEIGHT + SIZE // 2
    return int(picture[middle, 10, 0]), int(picture[middle, SIZE + 10, 0])


def test_the_cameras_stay_above_and_everything_has_its_place():
    picture = draw(overlay(foresight()), 3)
    assert picture.shape == (SIZE + CAPTION_HEIGHT + SIZE + VALUE_HEIGHT, 2 * SIZE, 3)
    assert (picture[:SIZE, :SIZE] == 77).all()
    assert (picture[:SIZE, SIZE:] == 178).all()
    assert frames_of(picture) == (100, 10)


@pytest.mark.parametrize(
    ("frame", "shown"), [(0, (100, 10)), (5, (100, 10)), (6, (110, 20)), (10, (110, 20))]
)
def test_the_frame_after_a_chunk_still_shows_what_was_expected_of_it(frame, shown):
    assert frames_of(draw(overlay(foresight()), frame)) == shown


def test_where_the_episode_ended_within_a_chunk_the_present_view_stands_beside():
    assert frames_of(draw(overlay(foresight()), 13, level=77)) == (120, 77)


def bars(picture):
    """Return (brightness, height) of the three bars of 26 steps."""
    strip = picture[-VALUE_HEIGHT:, :, 0]
    room = 2 * SIZE - VALUE_LEFT
    found = []
    for step in (5, 15, 23):
        column = strip[:, VALUE_LEFT + step * room // 27]
        lit = column[column > 24]
        found.append((int(lit[0]), len(lit)))
    return found


def test_values_are_bars_and_the_present_one_is_bright():
    assert bars(draw(overlay(foresight()), 8)) == [(PLAYED, 10), (PRESENT, 20), (FAINT, 40)]
    assert [height for _, height in bars(draw(overlay(foresight()), 0))] == [10, 20, 40]


def test_values_beyond_one_and_below_zero_are_drawn_to_their_own_scale():
    picture = draw(overlay(foresight(values=(-1.0, 1.0, 3.0))), 0)
    assert [height for _, height in bars(picture)] == [1, 20, 40]


def test_a_model_with_values_alone_gets_a_strip_and_one_with_frames_alone_gets_frames():
    values = draw(overlay(foresight(frames=False)), 0)
    assert values.shape == (SIZE + VALUE_HEIGHT, 2 * SIZE, 3)
    frames = draw(overlay(foresight(values=(None, None, None))), 0)
    assert frames.shape == (SIZE + CAPTION_HEIGHT + SIZE, 2 * SIZE, 3)
    assert frames_of(frames) == (100, 10)


def test_a_prediction_without_a_value_among_others_has_no_bar():
    picture = draw(overlay(foresight(values=(0.5, None, 0.5))), 8)
    strip = picture[-VALUE_HEIGHT:, :, 0]
    assert (strip[:, VALUE_LEFT + 15 * (2 * SIZE - VALUE_LEFT) // 27] == 24).all()


def test_a_model_that_told_nothing_leaves_the_cameras_as_they_are():
    images = seen(50).images
    cameras = side_by_side([images[role] for role in CAMERAS])
    assert np.array_equal(overlay(Foresight()).draw(0, images, cameras), cameras)


def test_an_enlarged_frame_is_made_of_its_own_pixels():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert np.array_equal(enlarged(image, 4, 6), image.repeat(2, axis=0).repeat(3, axis=1))
    assert enlarged(image, 5, 7).shape == (5, 7, 3)


def test_every_picture_of_a_video_has_one_even_size(tmp_path):
    av = pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    made, images = foresight(), seen(77).images
    finish = overlay(made).draw
    path = tmp_path / "episode.mp4"
    write_video((images for _ in range(14)), path, fps=10.0, roles=CAMERAS, finish=finish)
    with av.open(str(path)) as container:
        shown = [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]
    assert len(shown) == 14
    assert {one.shape for one in shown} == {draw(overlay(made), 0).shape}
    assert all(side % 2 == 0 for side in shown[0].shape[:2])
    assert abs(frames_of(shown[0])[0] - 100) < 6


@pytest.mark.parametrize(("fps", "control_hz"), [(10.0, 20.0), (10.0, 15.0), (30.0, 20.0)])
def test_a_frame_is_of_the_step_that_the_recording_shows(fps, control_hz):
    recording = Recording(control_hz)
    recording.start(0)
    for step in range(1, 34):
        recording.add(step)
    shown = list(recording.at(fps))
    steps = [step_of_frame(frame, fps=fps, control_hz=control_hz) for frame in range(len(shown))]
    assert [min(step, 33) for step in steps] == shown


def test_letters_are_told_apart_and_cut_where_there_is_no_room():
    def written(text, width=200):
        picture = np.zeros((LETTER_HEIGHT, width, 3), np.uint8)
        write_text(picture, text, left=0, top=0)
        return picture

    letters = "abcdefghijklmnopqrstuvwxyz0123456789-.:"
    assert len({written(letter).tobytes() for letter in letters}) == len(letters)
    assert np.array_equal(written("Ab"), written("aB"))
    assert not written("_ ?").any()
    narrow = written("abc", width=2 * LETTER_WIDTH + 3)
    assert np.array_equal(narrow, written("ab", width=2 * LETTER_WIDTH + 3))
