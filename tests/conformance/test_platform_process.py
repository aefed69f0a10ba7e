# SPDX-License-Identifier: Apache-2.0
"""What every platform does to its process: output, files, threads, memory, GL contexts.

Each is asked in a process without standard input, without a home, in a folder that is not to be
written to: what a container gives it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import platform_probe
import pytest
from msgspec import Struct
from platform_probe import Answer
from platform_subjects import options_here, require_simulator

from rpent_box.options import to_arguments
from rpent_box.plugins import find_platform, platform_names
from rpent_box.sim.check import PlatformCheck
from rpent_box.sim.platform import PlatformPlugin

TIMEOUT_S = 900
pytestmark = [pytest.mark.simulator, pytest.mark.timeout(TIMEOUT_S)]

LIVES = 5
SETTLED = 2
"""Caches, pools and compiled code are there after so many lives."""
GROWS_MB = 25.0
"""A scene that nobody freed weighs more, and in each life; what an allocator or a compiler of
shaders keeps comes and goes by twice as much."""


class Ended(Struct, frozen=True, kw_only=True):
    """A process after some lives of a platform."""

    answer: Answer
    stdout: bytes
    stderr: str
    in_folder: list[str]
    in_scratch: list[str]


@pytest.fixture(scope="module", params=platform_names())
def plugin(request: pytest.FixtureRequest) -> PlatformPlugin:
    return find_platform(request.param)


@pytest.fixture(scope="module")
def ended(plugin: PlatformPlugin, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    require_simulator(plugin)
    words = to_arguments(options_here(plugin))
    root = tmp_path_factory.mktemp("process")
    folder, scratch, no_folder = root / "folder", root / "scratch", root / "file"
    folder.mkdir(mode=0o555)
    scratch.mkdir()
    no_folder.touch()
    settings = plugin.environment | {
        # Not even root can make a folder inside a file.
        "HOME": str(no_folder / "home"),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    program = [sys.executable, platform_probe.__file__, plugin.name, str(LIVES)]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *program, str(root / "answer"), *words],
        env={**os.environ, **settings},
        cwd=folder,
        capture_output=True,
        timeout=TIMEOUT_S - 20,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return Ended(
        answer=msgspec.json.decode((root / "answer").read_bytes(), type=Answer),
        stdout=done.stdout,
        stderr=done.stderr.decode(),
        in_folder=_names(folder),
        in_scratch=_names(scratch),
    )


def test_it_plays_without_standard_input_and_home(ended: Ended) -> None:
    assert not ended.answer.stdin, "the question was asked with a standard input"
    assert len(ended.answer.lives) == LIVES


def test_it_prints_nothing(ended: Ended) -> None:
    assert ended.stdout == b""


def test_it_leaves_no_files(ended: Ended) -> None:
    assert ended.in_folder == []
    assert ended.in_scratch == []


def test_acting_before_the_first_reset_is_an_error_in_words(ended: Ended) -> None:
    assert {life.before_reset for life in ended.answer.lives} == {"simulator"}


def test_each_life_shows_the_same_scene(ended: Ended) -> None:
    assert len({life.shown for life in ended.answer.lives}) == 1
    assert len({life.played for life in ended.answer.lives}) == 1


def test_closing_frees_memory(ended: Ended) -> None:
    settled = [life.resident_mb for life in ended.answer.lives[SETTLED - 1 :]]
    grown = [after - before for before, after in zip(settled, settled[1:], strict=False)]
    assert min(grown) < GROWS_MB, settled


def test_closing_ends_threads_and_closes_files(ended: Ended) -> None:
    settled = ended.answer.lives[SETTLED - 1 :]
    assert settled[-1].threads <= settled[0].threads, [life.threads for life in settled]
    assert settled[-1].files <= settled[0].files, [life.files for life in settled]


def test_closing_frees_gl_contexts(ended: Ended) -> None:
    assert {life.gl_contexts for life in ended.answer.lives} == {0}


def test_physics_and_pixels_are_what_was_recorded_even_without_assets(
    plugin: PlatformPlugin,
) -> None:
    require_simulator(plugin)
    program = [sys.executable, "-m", "rpent_box.sim.check", plugin.name, "--golden"]
    variables = {*plugin.env_fallbacks}
    done = subprocess.run(
        program,
        env={name: value for name, value in os.environ.items() if name not in variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S - 20,
        check=False,
    )
    found = msgspec.json.decode(done.stdout.splitlines()[-1], type=PlatformCheck)
    assert (found.error, found.differs, found.compared) == ("", (), True), found.detail
    assert done.returncode == 0


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
