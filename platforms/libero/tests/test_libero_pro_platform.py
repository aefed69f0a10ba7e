# SPDX-License-Identifier: Apache-2.0
"""LIBERO-Pro's tasks as they are played: each perturbs what its family says, and nothing is lost.

The quick tests play one task of each family, the slow one the first task of all 33 suites.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadOption, UnknownName
from rpent_box.sim.platform import PlatformPlugin, Scene
from rpent_box_libero import PLATFORM, PRO_PLATFORM
from rpent_box_libero.control import REST
from rpent_box_libero.environment import LiberoEnvironment
from rpent_box_libero.golden import check_golden
from rpent_box_libero.make_suites import read_pro_suites
from rpent_box_libero.platform import BLEW_UP, SOLVED_BEFORE, LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import LIBERO, LIBERO_PRO, PRO_SUITES, SUITES, find_suite
from rpent_box_libero.tasks import Task, find_task

pytestmark = pytest.mark.simulator

SEED = 7
SIZE = 64
_BETWEEN = "between the plate and the ramekin and place it on the plate"
FAMILIES = {
    "libero_spatial_lan": "lift the black bowl between the plate and ramekin and set it on the "
    "plate",
    "libero_spatial_object": f"pick the akita black bowl {_BETWEEN}",
    "libero_spatial_swap": f"pick the akita black bowl {_BETWEEN}",
    "libero_spatial_task": f"pick the akita black bowl not {_BETWEEN}",
    "libero_spatial_with_mug": f"pick up the black bowl {_BETWEEN}",
    "libero_spatial_with_milk": f"pick the akita black bowl {_BETWEEN}",
    "libero_spatial_with_yellow_book": f"pick up the black bowl {_BETWEEN}",
}
"""One suite of each family → what its first task asks for."""
EVERY_SUITE = [
    (platform, suite.name)
    for platform, suites in ((LIBERO, SUITES), (LIBERO_PRO, PRO_SUITES))
    for suite in suites
    if not suite.unavailable
]


@contextmanager
def opened(plugin: PlatformPlugin, options: LiberoOptions) -> Iterator[LiberoPlatform]:
    platform = plugin.open(options)
    assert isinstance(platform, LiberoPlatform)
    try:
        yield platform
    finally:
        platform.close()


@pytest.fixture(scope="module")
def pro() -> Iterator[LiberoPlatform]:
    with opened(PRO_PLATFORM, LiberoOptions(image_size=SIZE)) as platform:
        yield platform


@pytest.fixture(scope="module")
def libero() -> Iterator[LiberoPlatform]:
    with opened(PLATFORM, LiberoOptions(image_size=SIZE)) as platform:
        yield platform


@pytest.fixture(scope="module")
def process() -> Iterator[None]:
    with prepared_process():
        yield


def test_the_shipped_suites_are_the_installed_ones() -> None:
    assert read_pro_suites() == PRO_SUITES


def test_physics_and_renderer_are_what_they_were() -> None:
    with opened(PRO_PLATFORM, LiberoOptions()) as platform:
        assert check_golden(platform) == []


@pytest.mark.parametrize("suite", FAMILIES)
def test_one_task_of_each_family_resets_steps_and_restores(pro: LiberoPlatform, suite: str) -> None:
    observation = require_playable(pro, suite)
    assert observation.instruction == FAMILIES[suite]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "suite"), EVERY_SUITE)
def test_the_first_task_of_every_suite_resets_steps_and_restores(
    request: pytest.FixtureRequest, name: str, suite: str
) -> None:
    require_playable(request.getfixturevalue({LIBERO: "libero", LIBERO_PRO: "pro"}[name]), suite)


def test_a_suite_of_the_other_platform_is_not_played(
    pro: LiberoPlatform, libero: LiberoPlatform
) -> None:
    for platform, suite in ((pro, "libero_goal"), (libero, "libero_goal_lan")):
        with pytest.raises(UnknownName, match=f"no suite called {suite}"):
            platform.reset(Scene(suite=suite, task=0, init_state=0, seed=SEED))


def test_the_names_words_are_refused_where_the_scene_has_others() -> None:
    with opened(PRO_PLATFORM, LiberoOptions(image_size=16, sentence="name")) as platform:
        for suite in ("libero_goal_lan", "libero_10_task"):
            with pytest.raises(BadOption, match=f"tasks of {suite} .* wrong ones"):
                platform.reset(Scene(suite=suite, task=0, init_state=0, seed=SEED))


# --- what the page warns of ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("task", "before"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_task_that_is_solved_as_it_begins_ends_in_its_first_step_and_says_so(
    pro: LiberoPlatform, *, task: int, before: bool
) -> None:
    pro.reset(Scene(suite="libero_study_table", task=task, init_state=0, seed=SEED))
    applied = pro.apply(np.tile(np.float32(REST), (3, 1)))
    assert (applied.success, applied.steps) == ((True, 1) if before else (False, 3))
    assert applied.remarks == ({SOLVED_BEFORE: 1} if before else {})


@pytest.mark.slow
def test_a_stove_that_is_off_has_to_be_turned_off_all_the_same(pro: LiberoPlatform) -> None:
    pro.reset(Scene(suite="libero_goal_task", task=7, init_state=0, seed=SEED))
    applied = pro.apply(np.tile(np.float32(REST), (3, 1)))
    assert (applied.success, applied.remarks) == (False, {})
    stove = pro._current().problem.object_states_dict["flat_stove_1"]
    stove.set_joint(-0.001)
    assert pro.apply(np.float32([REST])).success


@pytest.mark.slow
def test_a_scene_that_blows_up_is_remarked_on_and_others_are_not(
    pro: LiberoPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs it to a file where it stands
    for init_state, lost in ((0, True), (1, False)):
        pro.reset(Scene(suite="libero_10_task", task=5, init_state=init_state, seed=SEED))
        applied = pro.apply(np.tile(np.float32(REST), (6, 1)))
        assert applied.remarks == ({BLEW_UP: 1} if lost else {})
    pro.reset(Scene(suite="libero_10_task", task=5, init_state=0, seed=SEED))
    assert pro.apply(np.float32([REST] * 6)).remarks == {BLEW_UP: 1}


# --- what each family perturbs ------------------------------------------------------------------


@pytest.mark.parametrize("base", ["libero_spatial", "libero_object", "libero_goal", "libero_10"])
@pytest.mark.usefixtures("process")
def test_sentences_differ_exactly_where_they_are_perturbed(base: str) -> None:
    for name in find_suite(base).tasks:
        original = find_task(base, name).instruction()
        for how, differs in (("lan", True), ("task", True), ("object", False), ("swap", False)):
            assert (find_task(f"{base}_{how}", name).instruction() != original) is differs


@pytest.mark.usefixtures("process")
def test_lan_changes_the_words_and_nothing_else() -> None:
    original, varied = both("libero_spatial", "libero_spatial_lan")
    assert goal(varied) == goal(original)
    assert things(varied) == things(original)
    before, after = original.init_states(), varied.init_states()
    assert before.shape == after.shape
    # The states were drawn anew, from the same regions of the table; the arm starts where it does.
    assert not np.array_equal(before, after)
    assert np.abs(before.mean(axis=0) - after.mean(axis=0)).max() < 0.05


@pytest.mark.usefixtures("process")
def test_initial_states_differ_from_each_other_and_the_arms_do_not() -> None:
    for suite in ("libero_goal_task", "libero_spatial_with_milk"):
        states = first_task(suite).init_states()
        assert len(np.unique(states, axis=0)) == len(states)
        assert np.ptp(states[:, 1:8], axis=0).max() == 0  # LIBERO's own arms start 0.1 rad apart


@pytest.mark.usefixtures("process")
def test_object_shows_other_models_and_asks_for_them() -> None:
    original, varied = both("libero_spatial", "libero_spatial_object")
    assert things(original) - things(varied) == {"akita_black_bowl", "plate"}
    assert things(varied) - things(original) == {"black_bowl", "yellow_plate"}
    assert goal(original) == [["on", "akita_black_bowl_1", "plate_1"]]
    assert goal(varied) == [["on", "black_bowl_1", "yellow_plate_1"]]
    assert varied.instruction() == original.instruction()
    before, after = settled(original), settled(varied)
    assert any("yellow_plate" in name for name in after.geoms)
    assert not any("yellow_plate" in name for name in before.geoms)


@pytest.mark.usefixtures("process")
def test_swap_exchanges_places() -> None:
    original, varied = both("libero_spatial", "libero_spatial_swap")
    assert goal(varied) == goal(original)
    assert things(varied) == things(original)
    before, after = settled(original).places, settled(varied).places
    for one, other in (("plate_1", "cookies_1"), ("cookies_1", "plate_1")):
        assert np.linalg.norm(after[one][:2] - before[other][:2]) < 0.03
        assert np.linalg.norm(after[one][:2] - before[one][:2]) > 0.1
    still = "glazed_rim_porcelain_ramekin_1"
    assert np.linalg.norm(after[still][:2] - before[still][:2]) < 0.03


@pytest.mark.usefixtures("process")
def test_task_is_solved_by_its_own_goal_and_not_by_the_old_one() -> None:
    # Both tasks are named open_the_middle_drawer_of_the_cabinet; the perturbed one asks for the
    # bottom drawer.
    middle, bottom = "wooden_cabinet_1_middle_level", "wooden_cabinet_1_bottom_level"
    original, varied = both("libero_goal", "libero_goal_task")
    assert varied.instruction() == "open the bottom drawer of the cabinet"
    assert solved_by_opening(original, middle, bottom) == [True, False]
    assert solved_by_opening(varied, middle, bottom) == [False, True]


@pytest.mark.parametrize(
    ("how", "thing"),
    [("mug", "libero_mug_yellow"), ("milk", "milk"), ("yellow_book", "yellow_book")],
)
@pytest.mark.usefixtures("process")
def test_with_adds_a_thing_that_the_task_does_not_need(how: str, thing: str) -> None:
    varied = first_task(f"libero_spatial_with_{how}")
    plain = find_task("libero_spatial", find_suite("libero_spatial").tasks[0])
    assert things(varied) - things(plain) == {thing}
    assert not any(thing in word for condition in goal(varied) for word in condition)


# --- how that is asked ---------------------------------------------------------------------------


def require_playable(platform: LiberoPlatform, suite: str) -> Observation:
    """Reset, step, restore: the second reset shows the first frame and state again."""
    scene = Scene(suite=suite, task=0, init_state=0, seed=SEED)
    first = platform.reset(scene)
    settled_state = platform.recorded_states()[0]
    for image in first.images.values():
        assert image.std() > 5
    reach = np.tile(np.float32([0.5, 0, -0.5, 0, 0, 0, 1]), (3, 1))
    applied = platform.apply(reach)
    assert platform.recorded_states().shape[0] == applied.steps + 1
    assert applied.observation is not None
    assert applied.remarks == {}
    moved = applied.observation.proprio["eef_position"] - first.proprio["eef_position"]
    assert moved[0] > 0.005 > -0.005 > moved[2]
    again = platform.reset(scene)
    assert again.instruction == first.instruction
    assert {name: image.tobytes() for name, image in again.images.items()} == {
        name: image.tobytes() for name, image in first.images.items()
    }
    assert platform.recorded_states()[0].tobytes() == settled_state.tobytes()
    return first


class Settled:
    """What a task's first scene holds once it has settled."""

    def __init__(self, environment: LiberoEnvironment) -> None:
        model = environment.problem.sim.model
        self.geoms = {model.geom_id2name(geom) or "" for geom in range(model.ngeom)}
        self.places: dict[str, NDArray[np.float64]] = {
            name.removesuffix("_pos"): np.array(value)
            for name, value in environment.raw.items()
            if name.endswith("_pos") and not name.startswith("robot0")
        }


def first_task(suite: str, *, platform: str = LIBERO_PRO) -> Task:
    return find_task(suite, find_suite(suite, platform=platform).tasks[0])


def both(base: str, varied: str) -> tuple[Task, Task]:
    """Return the first task of `base` and the one of that name in `varied`."""
    name = find_suite(base).tasks[0]
    return find_task(base, name), find_task(varied, name)


def parsed(task: Task) -> dict[str, Any]:
    from libero.libero.envs.bddl_utils import robosuite_parse_problem

    problem: dict[str, Any] = robosuite_parse_problem(str(task.bddl_file))
    return problem


def goal(task: Task) -> list[list[str]]:
    conditions: list[list[str]] = parsed(task)["goal_state"]
    return conditions


def things(task: Task) -> set[str]:
    return set(parsed(task)["objects"])


@cache
def settled(task: Task) -> Settled:
    environment = LiberoEnvironment(task, image_size=16)
    try:
        environment.reset(seed=SEED, init_state=task.init_states()[0], render=False)
        return Settled(environment)
    finally:
        environment.close()


def solved_by_opening(task: Task, *drawers: str) -> list[bool]:
    """Return for each drawer whether opening it, and nothing else, solves `task`."""
    environment = LiberoEnvironment(task, image_size=16)
    solved = []
    try:
        for drawer in drawers:
            environment.reset(seed=SEED, init_state=task.init_states()[0], render=False)
            assert not environment.is_solved()
            sim = environment.problem.sim
            sim.data.set_joint_qpos(drawer, -0.16)
            sim.forward()
            solved.append(environment.step(REST, render=False))
    finally:
        environment.close()
    return solved
