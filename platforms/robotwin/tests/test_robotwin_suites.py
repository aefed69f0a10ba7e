# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from rpent_box.errors import UnknownName
from rpent_box_robotwin.assets import TASK_OBJECTS
from rpent_box_robotwin.suites import SUITES, find_suite, task_name


def test_both_suites_have_the_fields_fifty_tasks_in_alphabetical_order() -> None:
    assert [suite.name for suite in SUITES] == ["demo_clean", "demo_randomized"]
    for suite in SUITES:
        assert len(set(suite.tasks)) == 50
        assert list(suite.tasks) == sorted(suite.tasks)


def test_each_task_has_the_fields_step_limit() -> None:
    suite = find_suite("demo_clean")
    limits = dict(zip(suite.tasks, suite.task_max_steps, strict=True))
    assert limits["stack_blocks_two"] == 800
    assert limits["beat_block_hammer"] == 400
    assert limits["put_bottles_dustbin"] == suite.max_steps == 1700


def test_scenes_are_numbered_by_seed_from_the_fields_first_one() -> None:
    assert {(suite.init_states, suite.first_init_state) for suite in SUITES} == {(0, 100_000)}


def test_a_task_is_found_by_its_place() -> None:
    suite = find_suite("demo_randomized")
    assert task_name(suite, 0) == "adjust_bottle"
    assert task_name(suite, 49) == "turn_switch"
    for index in (-1, 50):
        with pytest.raises(UnknownName, match="50 tasks"):
            task_name(suite, index)


def test_an_unknown_suite_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="demo_clean, demo_randomized"):
        find_suite("demo_dirty")


def test_five_tasks_need_no_objects() -> None:
    assert [task for task, objects in TASK_OBJECTS.items() if not objects] == [
        "blocks_ranking_rgb",
        "blocks_ranking_size",
        "handover_block",
        "stack_blocks_three",
        "stack_blocks_two",
    ]


def test_the_written_suites_are_those_of_the_installed_runtime() -> None:
    pytest.importorskip("robotwin", reason="the RoboTwin runtime is not installed here")
    from rpent_box_robotwin.make_suites import read_suites, read_task_objects

    assert tuple(read_suites()) == SUITES
    assert read_task_objects() == TASK_OBJECTS


def test_every_object_that_a_task_names_has_a_description_in_the_runtime() -> None:
    pytest.importorskip("robotwin", reason="the RoboTwin runtime is not installed here")
    from importlib.resources import files

    described = files("robotwin.description").joinpath("objects_description")
    names = {name for objects in TASK_OBJECTS.values() for name in objects}
    assert [name for name in sorted(names) if not described.joinpath(name).is_dir()] == []


def test_the_page_of_the_platform_lists_each_task_with_its_limit_and_its_objects() -> None:
    page = Path(__file__).resolve().parents[3] / "docs/platforms/robotwin.md"
    if not page.is_file():
        pytest.skip("the documentation is not beside the tests")
    suite = find_suite("demo_clean")
    lines = page.read_text().splitlines()
    for index, (task, limit) in enumerate(zip(suite.tasks, suite.task_max_steps, strict=True)):
        objects = ", ".join(TASK_OBJECTS[task]) or "(none)"
        assert f"| {index} | `{task}` | {limit} | {objects} |" in lines
