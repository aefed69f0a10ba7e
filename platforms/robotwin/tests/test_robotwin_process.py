# SPDX-License-Identifier: Apache-2.0
"""The process that RoboTwin is imported into: what it finds there, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.errors import SimulatorError
from rpent_box_robotwin.process import assets_in, prepared_process, quiet
from rpent_box_robotwin.standins import stand_ins

PROGRAM = """
import logging, os, sys
from pathlib import Path
logging.basicConfig(level=logging.WARNING)
from rpent_box_robotwin.process import prepared_process
ours = ("HOME", "MPLCONFIGDIR", "ASSETS_PATH", "ROBOTWIN_ASSETS_ROOT", "VK_ICD_FILENAMES")
variables = lambda: {name: os.environ.get(name) for name in ours}
before = variables()
with prepared_process() as folder:
    import sapien
    from rpent_box_robotwin.environment import RobotwinEnvironment, SceneName
    from rpent_box_robotwin.renderer import Renderer
    renderer = Renderer(sapien.render.RenderSystem(), rays=False)
    name = SceneName(suite="demo_clean", task="stack_blocks_two", seed=100000)
    environment = RobotwinEnvironment(name, assets=Path(sys.argv[1]), renderer=renderer)
    hold = environment.robot_state()["qpos_target14"]
    solved = environment.step(hold, "qpos")
    environment.close()
    environment.close()
    renderer.close()
print(solved, variables() == before, folder.exists(), os.getcwd(), "torch" in sys.modules)
"""


@pytest.mark.simulator
def test_it_runs_without_stdin_home_or_a_writable_place_and_prints_nothing(assets: Path) -> None:
    files = sorted(assets.rglob("*"))
    bare = {key: value for key, value in os.environ.items() if key not in ("HOME", "ASSETS_PATH")}
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" "$2" <&-', sys.executable, PROGRAM, str(assets)],
        capture_output=True,
        text=True,
        cwd="/proc",  # nobody can write there
        env=bare,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "False", "/proc", "False"]
    assert done.stderr == ""
    assert sorted(assets.rglob("*")) == files


def test_an_empty_list_of_drivers_is_no_list(assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "")
    with prepared_process():
        assert "VK_ICD_FILENAMES" not in os.environ
    assert os.environ["VK_ICD_FILENAMES"] == ""
    monkeypatch.setenv("VK_ICD_FILENAMES", "/a/driver.json")
    with prepared_process():
        assert os.environ["VK_ICD_FILENAMES"] == "/a/driver.json"


def test_a_missing_simulator_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with (
        pytest.raises(SimulatorError, match="sapien is not installed") as caught,
        prepared_process(),
    ):
        pass
    assert "rpent-box build robotwin" in caught.value.hint


def test_the_assets_are_named_only_while_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSETS_PATH", "/elsewhere")
    monkeypatch.delenv("ROBOTWIN_ASSETS_ROOT", raising=False)
    with assets_in(tmp_path):
        assert os.environ["ASSETS_PATH"] == os.environ["ROBOTWIN_ASSETS_ROOT"] == str(tmp_path)
    assert os.environ["ASSETS_PATH"] == "/elsewhere"
    assert "ROBOTWIN_ASSETS_ROOT" not in os.environ


def test_what_is_printed_goes_to_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", logger="rpent_box_robotwin"), quiet(errors=True):
        sys.stdout.write("step: 1 / 800\r")
        sys.stderr.write("a traceback\n")
    assert capsys.readouterr() == ("", "")
    assert [record.getMessage() for record in caplog.records] == [
        "robotwin printed: step: 1 / 800",
        "robotwin printed: a traceback",
    ]


def test_a_stand_in_has_what_is_needed_and_says_when_more_is_wanted() -> None:
    before = {name: sys.modules.get(name) for name in ("torch", "open3d", "curobo")}
    with stand_ins():
        import torch
        import torch.multiprocessing as processes

        torch.manual_seed(3)
        with pytest.raises(SimulatorError, match=r"asked for torch\.cuda"):
            _ = torch.cuda
        with pytest.raises(SimulatorError, match=r"asked for torch\.multiprocessing\.Pipe"):
            _ = processes.Pipe
        with pytest.raises(ModuleNotFoundError):
            import curobo  # noqa: F401
    assert {name: sys.modules.get(name) for name in before} == before
