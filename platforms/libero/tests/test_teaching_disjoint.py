# SPDX-License-Identifier: Apache-2.0
"""What is learnt from is not what is judged on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.reserved import is_reserved
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.process import prepared_process
from rpent_box_libero.sentence import sentence_in_name
from rpent_box_libero.suites import PRO_SUITES, SUITES
from rpent_box_libero.tasks import find_task
from rpent_box_libero.teaching.crew import Job, Recorder, Setup, episode_rng
from rpent_box_libero.teaching.disjoint import (
    NEARLY_THE_SAME,
    Layout,
    Recorded,
    Thing,
    compare,
    describe,
    distances,
    main,
    read_initial_states,
    settle,
    settle_recorded,
)
from rpent_box_libero.teaching.episode import Recording
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.student import NO_STUDENT

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

_LANGUAGE = re.compile(r"\(:language ([^)]*)\)")
SUITE, TASK, SCENES = "libero_spatial", 0, 12
IN_DRAWER = 4
"""Of libero_spatial: its bowl lies in a drawer."""


def layout_of(*names: str, robot: int = 0) -> Layout:
    """Return where things lie in a state whose first `robot` positions are the robot's."""
    things = [
        Thing(kind=name[:-1], name=name, first=robot + 7 * number, size=7)
        for number, name in enumerate(names)
    ]
    return tuple(sorted(things))


def state(*places: tuple[float, float, float], arm: float = 0.0, speed: float = 0.0) -> Any:
    """Return a state: time, one joint of an arm, poses of things, a velocity."""
    poses = [(*place, 1.0, 0.0, 0.0, 0.0) for place in places]
    return np.array([0.5, arm, *np.ravel(poses), speed])


CUPS = layout_of("bowl1", "cup1", "plate1", robot=1)
RECORDED = Recorded(
    task=3,
    layout=CUPS,
    states=np.stack(
        [state((0, 0, 1), (1, 0, 1), (2, 0, 1)), state((0, 5, 1), (1, 5, 1), (2, 5, 1))]
    ),
)


def test_neither_the_arm_nor_a_speed_makes_a_scene_another() -> None:
    fresh = np.stack(
        [
            state((0, 5, 1), (1.2, 5, 1), (2, 5.1, 1), arm=0.3),
            state((0, 0.3, 1), (1.2, 0, 1), (2, 0.1, 1), arm=0.6, speed=9.0),
        ]
    )
    apart = distances(fresh, CUPS, RECORDED)
    assert apart == pytest.approx(np.array([[5.1, 0.2], [0.3, 5.0]]))


def test_what_goes_where_the_fixtures_go_makes_no_scene_another_and_is_named() -> None:
    fresh = state((0, 5, 1), (1.2, 5, 1), (2, 5, 1))[None]
    assert compare("suite", 3, fresh, [RECORDED]).distance == pytest.approx(0.2)
    loose = replace(RECORDED, loose=frozenset({"cup1"}))
    nearest = compare("suite", 3, fresh, [loose])
    assert (nearest.distance, nearest.state) == (0.0, 1)
    assert "2 recorded ones of tasks 3 (task 3: without cup1): nearest" in describe(nearest)


def test_a_scene_is_another_when_one_thing_lies_elsewhere() -> None:
    fresh = state((0, 5, 1), (1, 5 + 2 * NEARLY_THE_SAME, 1), (2, 5, 1))[None]
    assert not compare("suite", 3, fresh, [RECORDED]).is_near


def test_things_of_one_kind_may_have_changed_places() -> None:
    alike = layout_of("bowl1", "bowl2", "plate1", robot=1)
    recorded = Recorded(task=3, layout=alike, states=RECORDED.states)
    fresh = state((1, 5, 1), (0, 5, 1), (2, 5, 1))[None]
    assert distances(fresh, alike, recorded).min() == pytest.approx(0.0)
    assert distances(fresh, CUPS, RECORDED).min() == pytest.approx(1.0)


def test_scenes_are_compared_with_every_task_that_holds_the_same_things_in_any_order() -> None:
    turned = layout_of("plate1", "cup1", "bowl1", robot=1)
    tasks = [
        RECORDED,
        Recorded(task=4, layout=turned, states=RECORDED.states[:1]),
        Recorded(task=5, layout=layout_of("box1", "cup1", "plate1"), states=RECORDED.states),
    ]
    fresh = state((2, 0, 1), (1, 0, 1), (0, 0, 1))[None]
    nearest = compare("suite", 3, fresh, tasks)
    assert nearest.recorded == {3: 2, 4: 1}
    assert (nearest.of_task, nearest.state, nearest.is_near) == (4, 0, True)
    said = "suite 3: 1 fresh scenes with 3 recorded ones of tasks 3, 4: nearest 0.00000, to state 0"
    assert describe(nearest) == f"{said} of task 4 — nearly the same"


def test_a_folder_without_demonstrations_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path)]) == 1
    assert "holds no demonstrations" in capsys.readouterr().err


@pytest.mark.simulator
def test_exactly_the_sentences_that_only_variants_say_are_reserved() -> None:
    own, varied = (
        {said(suite.name, task) for suite in suites for task in suite.tasks}
        for suites in (SUITES, PRO_SUITES)
    )
    own |= {sentence_in_name(task).lower() for suite in SUITES for task in suite.tasks}
    assert len(varied - own) > 50
    assert [text for text in varied - own if not is_reserved(text)] == []
    assert [text for text in own if is_reserved(text)] == []


def said(suite: str, task: str) -> str:
    found = _LANGUAGE.search(find_task(suite, task).bddl_file.read_text())
    assert found is not None
    return found.group(1).lower()


def test_a_quaternion_and_its_negative_are_one_orientation() -> None:
    pose = [1.0, 2.0, 3.0, 0.6, 0.0, 0.0, 0.8]
    one = np.array([[0.5, *pose, *pose, 9.0]])
    turned = one * [1, *[1, 1, 1, -1, -1, -1, -1] * 2, 1]
    layout = layout_of("bowl1", "plate1")
    recorded = Recorded(task=0, layout=layout, states=one)
    assert distances(turned, layout, recorded) == pytest.approx(0.0)
    turned[0, 14] += 0.3
    assert distances(turned, layout, recorded) == pytest.approx(0.3)


@pytest.mark.simulator
def test_generation_opens_no_file_of_recorded_states_and_notes_where_it_began(
    tmp_path: Path,
) -> None:
    opened: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)  # stays until the process ends; nothing can take one away
    setup = Setup(out=str(tmp_path), seed=1, recording=Recording(max_steps=10), student=NO_STUDENT)
    with prepared_process(), Recorder(setup) as recorder:
        recorder.play(Job(number=0, lesson=f"{SUITE}-{TASK}", within=0))
    assert any(path.endswith(".bddl") for path in opened)
    assert not [path for path in opened if "init_files" in path or "pruned_init" in path]
    states = read_initial_states([tmp_path])
    assert list(states) == [(SUITE, TASK)]
    assert states[SUITE, TASK].shape[0] == 1


@pytest.mark.simulator
def test_a_recorded_scene_is_found_though_arm_and_fixtures_are_elsewhere() -> None:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        scene = TeachingScene(find_lesson(f"{SUITE}-{IN_DRAWER}"))
        known = scene.environment.task.init_states()[[7, 33]]
        recorded = settle(scene.environment, known, IN_DRAWER)
        copied = copy_of(scene, known[1])
        scene.close()
    assert recorded.loose == {"akita_black_bowl_1_joint0"}
    assert np.abs(copied[1:8] - recorded.states[1, 1:8]).max() > 0.01
    apart = distances(copied[None], recorded.layout, recorded)[0]
    assert apart[1] < NEARLY_THE_SAME / 5
    assert apart[0] > 2 * NEARLY_THE_SAME


def copy_of(scene: TeachingScene, known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a recorded state as a demonstration that begins in it would note it."""
    scene.environment.reset(seed=5, init_state=known, settle_steps=0, render=False)
    joints = scene.robot._ref_joint_pos_indexes
    noise = np.random.default_rng(2).normal(0, Recording().joint_noise_rad, len(joints))
    scene.sim.data.qpos[joints] += noise
    scene.sim.forward()
    scene.robot.controller.update(force=True)
    scene.robot.controller.reset_goal()
    scene.execute(np.tile(REST, (SETTLE_STEPS, 1)), render=False)
    return scene.environment.state()


@pytest.mark.simulator
@pytest.mark.slow
def test_no_fresh_scene_is_nearly_one_of_the_recorded_ones_and_those_would_be_found() -> None:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        scene = TeachingScene(find_lesson(f"{SUITE}-{TASK}"))
        fresh = []
        for number in range(SCENES):
            rng = episode_rng(1, scene.lesson.name, number)
            scene.sample(rng, joint_noise_rad=Recording().joint_noise_rad, render=False)
            fresh.append(scene.environment.state())
        copied = copy_of(scene, scene.environment.task.init_states()[7])
        scene.close()
        recorded = settle_recorded(SUITE, TASK)
    assert len(recorded.states) == 50
    assert sum(thing.size == 7 for thing in recorded.layout) == 5  # things that lie about there
    assert len(recorded.layout) == 9  # and three drawers and a knob, but no robot
    assert not recorded.loose
    assert not compare(SUITE, TASK, np.stack(fresh), [recorded]).is_near
    found = compare(SUITE, TASK, copied[None], [recorded])
    assert found.state == 7
    assert found.distance < NEARLY_THE_SAME / 5
