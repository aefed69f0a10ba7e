# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.errors import SimulatorError
from rpent_box_libero.process import check_renderer, prepared_process


@pytest.mark.parametrize("renderer", ["osmesa", "egl"])
def test_both_libraries_on_one_renderer_is_right(renderer: str) -> None:
    chosen = check_renderer({"MUJOCO_GL": renderer, "PYOPENGL_PLATFORM": renderer})
    assert chosen == renderer


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"MUJOCO_GL": "osmesa"},
        {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "egl"},
        {"MUJOCO_GL": "glfw", "PYOPENGL_PLATFORM": "glfw"},
    ],
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


EPISODE = """
from rpent_box_libero import PLATFORM
from rpent_box.sim.platform import Scene
platform = PLATFORM.open(PLATFORM.options(image_size=64))
observation = platform.reset(Scene(suite="libero_spatial", task=0, init_state=0, seed=7))
platform.close()
print(observation.images["primary"].shape, observation.instruction)
"""

ANSWER = (
    "(64, 64, 3) "
    "pick the akita black bowl between the plate and the ramekin and place it on the plate"
)


@pytest.mark.simulator
def test_a_scene_opens_without_stdin_home_or_leftovers(tmp_path: Path) -> None:
    pytest.importorskip("robosuite")
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment |= {"TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_episode(environment, home)
    assert done.stdout.strip() == ANSWER  # and no greeting of anyone else's
    assert "WARNING" not in done.stderr
    assert list(scratch.iterdir()) == []
    assert list(home.iterdir()) == []


@pytest.mark.simulator
def test_compiled_rotations_are_carried_to_where_numba_may_write(tmp_path: Path) -> None:
    pytest.importorskip("robosuite")
    program = (
        "import os\n"
        "os.environ.pop('NUMBA_CACHE_DIR', None)\n"
        "real = os.access\n"
        "os.access = lambda path, mode, **_: mode != os.W_OK and real(path, mode)\n"
        "import pathlib\n"
        "from rpent_box_libero.process import prepared_process\n"
        "with prepared_process() as folder:\n"
        "    import numpy as np\n"
        "    from robosuite.utils import transform_utils\n"
        "    copied = len(list((folder / 'numba').rglob('*.nbi')))\n"
        "    transform_utils.mat2quat(np.eye(3))\n"
        "    stats = transform_utils.mat2quat.stats\n"
        "    print(copied > 0, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
    )
    warm = "import numpy as np, robosuite.utils.transform_utils as t; t.mat2quat(np.eye(3))"
    subprocess.run([sys.executable, "-c", warm], check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True 1 0"


def run_episode(environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-c", EPISODE],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
