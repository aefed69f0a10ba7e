# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rpent_box_robotwin import PLATFORM
from rpent_box_robotwin.facts import scene_facts

TEST_ASSETS = Path(__file__).resolve().parents[4] / "shared/data/robotwin-aloha"


class Expert:
    """A task that answers by moving, as three of RoboTwin's do."""

    def __init__(self) -> None:
        self.moves = 0
        self.arm = ""

    def grasp_actor(self, name: str, arm_tag: str) -> str:
        raise AssertionError(f"{arm_tag} plans to grasp {name}")

    def move(self, *_actions: object) -> None:
        self.moves += 1

    def get_info(self) -> dict[str, object]:
        self.move(self.grasp_actor("block", arm_tag="left"))
        self.arm = "left"
        return {"{A}": "red block", "{a}": self.arm}


class Failing(Expert):
    def get_info(self) -> dict[str, object]:
        raise KeyError("block")


def test_asking_for_facts_moves_nothing_and_keeps_what_the_task_remembers() -> None:
    task = Expert()
    assert scene_facts(task) == {"{A}": "red block", "{a}": "left"}
    assert (task.moves, task.arm) == (0, "left")
    task.move()
    assert task.moves == 1


def test_a_task_gets_its_verbs_back_when_it_fails() -> None:
    task = Failing()
    with pytest.raises(KeyError):
        scene_facts(task)
    assert vars(task) == {"moves": 0, "arm": ""}


@pytest.fixture(scope="module")
def assets() -> Path:
    named = os.environ.get("ROBOTWIN_ASSETS_PATH", "")
    root = Path(named) if named else TEST_ASSETS
    if not (root / "assets").is_dir():
        pytest.skip("no RoboTwin assets: export ROBOTWIN_ASSETS_PATH=~/robotwin-assets")
    return root


@pytest.fixture(scope="module")
def process() -> Iterator[None]:
    pytest.importorskip("sapien", reason="SAPIEN is not installed here")
    for name, value in PLATFORM.environment.items():
        os.environ.setdefault(name, value)
    from rpent_box_robotwin.process import import_runtime, prepared_process

    with prepared_process():
        import_runtime()
        yield


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("stack_blocks_two", ["{A}", "{B}", "{a}", "{b}"]),
        ("stack_blocks_three", ["{A}", "{B}", "{C}", "{a}", "{b}", "{c}"]),
        ("blocks_ranking_size", ["{A}", "{B}", "{C}", "{a}", "{b}", "{c}"]),
        ("handover_block", []),
    ],
)
def test_a_real_scene_is_described_while_its_robot_stands_at_home(
    process: None, assets: Path, task: str, names: list[str]
) -> None:
    from rpent_box_robotwin.environment import RobotwinEnvironment, SceneName
    from rpent_box_robotwin.language import instruction_for
    from rpent_box_robotwin.renderer import find_renderer

    name = SceneName(suite="demo_clean", task=task, seed=100_000)
    environment = RobotwinEnvironment(name, assets=assets, renderer=find_renderer("off"))
    try:
        facts = environment.facts
        measured = environment.robot_state()["arm_qpos_real12"]
    finally:
        environment.close()
    assert sorted(facts) == names
    assert {facts[key] for key in names if key.islower()} <= {"left", "right"}
    assert np.abs(measured).max() < 1e-3
    assert "{" not in instruction_for("demo_clean", task, 100_000, facts)
