# SPDX-License-Identifier: Apache-2.0
"""What is learnt from is not what is judged on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rpent_box.backends.mini_wam.reserved import is_reserved
from rpent_box_libero.process import prepared_process
from rpent_box_libero.sentence import sentence_in_name
from rpent_box_libero.suites import PRO_SUITES, SUITES
from rpent_box_libero.tasks import find_task
from rpent_box_libero.teaching.crew import Job, Recorder, Setup, episode_rng
from rpent_box_libero.teaching.disjoint import (
    NEARLY_THE_SAME,
    Layout,
    nearest_distance,
    read_initial_states,
    settle_recorded,
)
from rpent_box_libero.teaching.episode import Recording
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.student import NO_STUDENT

_LANGUAGE = re.compile(r"\(:language ([^)]*)\)")
SUITE, TASK, SCENES = "libero_spatial", 0, 12


def test_the_distance_is_that_of_the_nearest_pair_in_positions_alone() -> None:
    recorded = np.array([[0.5, 1.0, 2.0, 9.0], [0.5, 3.0, 4.0, 9.0]])
    fresh = np.array([[7.0, 3.1, 4.2, 0.0], [7.0, 8.0, 8.0, 0.0]])
    layout = Layout(positions=2, quaternions=())
    assert nearest_distance(fresh, recorded, layout) == pytest.approx(0.2)


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
    one = np.array([[0.5, 1.0, 2.0, 3.0, 0.6, 0.0, 0.0, 0.8, 9.0]])
    turned = one * [1, 1, 1, 1, -1, -1, -1, -1, 1]
    layout = Layout(positions=7, quaternions=(3,))
    assert nearest_distance(turned, one, layout) == pytest.approx(0.0)
    turned[0, 7] += 0.3
    assert nearest_distance(turned, one, layout) == pytest.approx(0.3)


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
        one = scene.environment.task.init_states()[7]
        scene.environment.reset(seed=5, init_state=one, render=False)
        known = scene.environment.state()
        scene.close()
        recorded, layout = settle_recorded(SUITE, TASK)
    assert len(recorded) == 50
    assert len(layout.quaternions) == 5  # things that lie about in that scene
    distance = nearest_distance(np.stack(fresh), recorded, layout)
    assert distance > 2 * NEARLY_THE_SAME
    assert nearest_distance(known[None], recorded, layout) < NEARLY_THE_SAME / 5
