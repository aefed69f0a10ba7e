# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.errors import SimulatorError
from rpent_box_robocasa.process import check_renderer, prepared_process


@pytest.mark.parametrize("renderer", ["osmesa", "egl"])
def test_both_libraries_on_one_renderer_is_right(renderer: str) -> None:
    chosen = check_renderer({"MUJOCO_GL": renderer, "PYOPENGL_PLATFORM": renderer})
    assert chosen == renderer


@pytest.mark.parametrize(
    "environment",
    [{}, {"MUJOCO_GL": "osmesa"}, {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "egl"}],
)
def test_anything_else_is_refused_with_the_line_to_type(environment: dict[str, str]) -> None:
    with pytest.raises(SimulatorError, match="export MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa"):
        check_renderer(environment)


@pytest.mark.skipif(
    importlib.util.find_spec("robosuite") is not None, reason="the simulator is installed here"
)
def test_a_missing_simulator_is_named_with_the_next_step() -> None:
    with pytest.raises(SimulatorError, match="robosuite is not installed"), prepared_process():
        pass


CHECK = """
from rpent_box_robocasa import PLATFORM
platform = PLATFORM.open(PLATFORM.options())
print(PLATFORM.check(platform))
platform.close()
"""


@pytest.mark.simulator
def test_it_runs_without_stdin_home_or_leftovers_and_says_nothing(tmp_path: Path) -> None:
    pytest.importorskip("robosuite")
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment |= {"TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        env=environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"  # and no greeting of anyone else's
    assert "WARNING" not in done.stderr
    assert list(scratch.iterdir()) == []
    assert list(home.iterdir()) == []


@pytest.mark.simulator
def test_settings_of_the_users_are_not_read(tmp_path: Path) -> None:
    pytest.importorskip("robosuite")
    (tmp_path / "macros_private.py").write_text("VERBOSE = True\n", encoding="utf-8")
    program = (
        "from rpent_box_robocasa.process import prepared_process\n"
        "with prepared_process():\n"
        "    import robocasa.macros, robosuite.macros\n"
        "    print(robocasa.macros.VERBOSE, robosuite.macros.IMAGE_CONVENTION)\n"
    )
    environment = {**os.environ, "ROBOCASA_MACROS_PATH": str(tmp_path / "macros_private.py")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["False", "opengl"]
