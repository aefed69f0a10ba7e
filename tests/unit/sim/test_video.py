# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rpent_box.sim.video import LastSeen, side_by_side, write_thumbnail, write_video


def frame(value, height=31, width=33):
    primary = np.full((height, width, 3), value, dtype=np.uint8)
    wrist = np.full((20, 20, 3), 255 - value, dtype=np.uint8)
    return {"wrist": wrist, "primary": primary}


def test_cameras_stand_in_the_order_of_the_roles_on_even_sizes():
    images = frame(200)
    picture = side_by_side([images["primary"], images["wrist"]])
    assert picture.shape == (32, 54, 3)
    assert (picture[:31, :33] == 200).all()
    assert (picture[:20, 33:53] == 55).all()
    assert (picture[20:, 33:] == 0).all()


def test_a_video_holds_every_frame_in_a_form_that_browsers_play(tmp_path):
    av = pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    path = tmp_path / "episode.mp4"
    counted = []
    frames = [frame(value) for value in range(0, 200, 10)]
    count = write_video(
        iter(frames), path, fps=10.0, roles=("primary", "wrist"), on_frame=counted.append
    )
    assert count == len(frames) == counted[-1]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert (stream.width, stream.height) == (54, 32)
        assert stream.average_rate == 10
        shown = [decoded.to_ndarray(format="rgb24") for decoded in container.decode(stream)]
    assert len(shown) == len(frames)
    for picture, images in zip(shown, frames, strict=True):
        assert abs(int(picture[10, 10, 0]) - int(images["primary"][0, 0, 0])) < 12
        assert abs(int(picture[10, 43, 0]) - int(images["wrist"][0, 0, 0])) < 12
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_frames_that_break_off_leave_no_file(tmp_path):
    pytest.importorskip("av", reason="PyAV is in the simulator's environment only")

    def frames():
        yield frame(1)
        raise RuntimeError("the renderer is gone")

    with pytest.raises(RuntimeError, match="renderer is gone"):
        write_video(frames(), tmp_path / "episode.mp4", fps=10.0, roles=("primary",))
    assert list(tmp_path.iterdir()) == []


def test_no_frame_is_an_error_and_no_file(tmp_path):
    pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    with pytest.raises(ValueError, match="no frame"):
        write_video(iter(()), tmp_path / "episode.mp4", fps=10.0, roles=("primary",))
    assert list(tmp_path.iterdir()) == []


def test_only_cameras_that_the_frames_show_are_drawn_in_the_order_of_the_roles(tmp_path):
    av = pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    roles = ("primary", "primary_4_steps_ago", "wrist")
    write_video(iter([frame(200)]), tmp_path / "episode.mp4", fps=10.0, roles=roles)
    with av.open(str(tmp_path / "episode.mp4")) as container:
        (shown,) = [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]
    assert shown.shape == (32, 54, 3)
    assert abs(int(shown[10, 10, 0]) - 200) < 12


def test_frames_that_show_no_camera_of_the_platform_are_an_error_and_no_file(tmp_path):
    pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    with pytest.raises(ValueError, match="shows wrist, primary and none of head"):
        write_video(iter([frame(1)]), tmp_path / "episode.mp4", fps=10.0, roles=("head",))
    assert list(tmp_path.iterdir()) == []


def test_frames_are_passed_on_and_the_last_one_is_kept():
    frames = [frame(value) for value in (1, 2, 3)]
    seen = LastSeen(iter(frames))
    assert seen.images is None
    assert list(seen) == frames
    assert seen.images is frames[-1]


def test_a_thumbnail_shows_the_cameras_of_the_video_in_true_colours(tmp_path):
    av = pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    primary = np.zeros((256, 256, 3), dtype=np.uint8)
    primary[:, 128:] = (10, 200, 40)
    images = {"primary": primary, "wrist": np.full((256, 256, 3), 255, dtype=np.uint8)}
    path = tmp_path / "episode.jpg"
    write_thumbnail(images, path, roles=("primary", "primary_4_steps_ago", "wrist"))
    assert path.read_bytes()[:3] == b"\xff\xd8\xff"
    assert path.stat().st_size < 20_000
    with av.open(str(path)) as container:
        (shown,) = [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]
    assert shown.shape == (160, 320, 3)
    for column, colour in ((40, (0, 0, 0)), (120, (10, 200, 40)), (240, (255, 255, 255))):
        assert np.abs(shown[80, column].astype(int) - colour).max() < 8
    assert [each.name for each in tmp_path.iterdir()] == ["episode.jpg"]


def test_a_small_picture_is_not_made_larger(tmp_path):
    av = pytest.importorskip("av", reason="PyAV is in the simulator's environment only")
    write_thumbnail(frame(200), tmp_path / "episode.jpg", roles=("primary", "wrist"))
    with av.open(str(tmp_path / "episode.jpg")) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (54, 32)
