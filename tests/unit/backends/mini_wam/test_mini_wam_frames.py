# SPDX-License-Identifier: Apache-2.0
"""Several trainings that share one folder of decoded frames. Needs pyarrow and PyAV, no PyTorch."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'rpent-box[train]'")
pytest.importorskip("av", reason="needs PyAV: pip install 'rpent-box[train]'")

from mini_wam_demonstrations import Pretended, write_folder

import rpent_box
from rpent_box.backends.mini_wam import demonstrations as reading
from rpent_box.backends.mini_wam.demonstrations import read_demonstrations
from rpent_box.backends.mini_wam.frames import PART, cached_frames
from rpent_box.errors import BadOption, OutputError

ROOT = Path(rpent_box.__file__).parents[1]
KILLED_WHILE_DECODING = """
import os, signal, sys
from pathlib import Path
from rpent_box.backends.mini_wam import demonstrations, frames
demonstrations._decoded = lambda path: os.kill(os.getpid(), signal.SIGKILL)
frames.cached_frames(demonstrations.read_demonstrations(Path(sys.argv[1])), Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    episodes = [Pretended("bowl", "pick up the bowl", rows=4) for _ in range(2)]
    return write_folder(tmp_path_factory.mktemp("demonstrations"), episodes)


def kill_while_decoding(folder: Path, cache: Path) -> None:
    words = [sys.executable, "-c", KILLED_WHILE_DECODING, str(folder), str(cache)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environ, timeout=60, check=False)  # noqa: S603
    assert done.returncode == -signal.SIGKILL


def parts_in(cache: Path) -> list[Path]:
    return list(cache.glob(f".*{PART}"))


def test_one_that_is_killed_spoils_nothing_of_another_that_decodes_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demonstrations = read_demonstrations(folder)
    wanted = np.concatenate([episode.frames() for episode in demonstrations.episodes])
    decoded, once = reading._decoded, threading.Lock()

    def decoded_beside_another(path: Path) -> Iterator[NDArray[np.uint8]]:
        frames = list(decoded(path))
        if path == demonstrations.episodes[1].videos[1] and once.acquire(blocking=False):
            kill_while_decoding(folder, tmp_path)
            assert len(parts_in(tmp_path)) == 2, "the one that lives keeps its file"
        yield from frames

    monkeypatch.setattr(reading, "_decoded", decoded_beside_another)
    assert np.array_equal(cached_frames(demonstrations, tmp_path), wanted)
    assert once.locked()


def test_what_killed_ones_left_is_removed(folder: Path, tmp_path: Path) -> None:
    for _ in range(3):
        kill_while_decoding(folder, tmp_path)
        assert len(parts_in(tmp_path)) == 1
        assert not list(tmp_path.glob("*.npy"))
    assert len(cached_frames(read_demonstrations(folder), tmp_path)) == 8
    assert parts_in(tmp_path) == []


def test_a_file_that_is_cut_is_refused(folder: Path, tmp_path: Path) -> None:
    cached_frames(read_demonstrations(folder), tmp_path)
    (path,) = tmp_path.glob("*.npy")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(BadOption, match="does not hold the decoded frames") as caught:
        cached_frames(read_demonstrations(folder), tmp_path)
    assert "made again" in caught.value.hint


def test_a_cache_that_cannot_be_written_is_said_to_be_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="frames-.*cannot be written"):
        cached_frames(read_demonstrations(folder), tmp_path / "nowhere")


def test_a_disk_without_room_is_told_of_before_anything_is_decoded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        assert size > 8 * 2 * 3 * 128 * 128
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OutputError, match="cannot be written: No space left") as caught:
        cached_frames(read_demonstrations(folder), tmp_path)
    assert "Make room" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
