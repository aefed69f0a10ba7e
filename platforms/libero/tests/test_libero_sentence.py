# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.errors import BadOption
from rpent_box.options import parse_options
from rpent_box.sim.platform import Suite
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.sentence import check_sentence, sentence_in_name
from rpent_box_libero.suites import PRO_SUITES, SUITES

FIELD = {"libero_spatial": 10, "libero_object": 10, "libero_goal": 5, "libero_10": 0}
"""Suite → tasks whose scene and name spell different sentences."""


def test_a_tasks_name_is_read_without_its_room() -> None:
    assert sentence_in_name("KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet") == (
        "close the top drawer of the cabinet"
    )
    assert sentence_in_name("pick_up_the_milk_and_place_it_in_the_basket") == (
        "pick up the milk and place it in the basket"
    )
    assert sentence_in_name("STUDY_TABLESCENE_prepare_a_quick_snack_by_trans") == (
        "prepare a quick snack by trans"
    )
    assert sentence_in_name("STUDY_TABLESCENE_the_task_involves_preparing_a_") == (
        "the task involves preparing a"
    )


def test_no_sentence_begins_with_a_room() -> None:
    sentences = [sentence_in_name(task) for suite in SUITES + PRO_SUITES for task in suite.tasks]
    assert len(sentences) == 130 + 259
    assert [sentence for sentence in sentences if "SCENE" in sentence] == []


def test_the_scenes_own_sentence_is_the_default_and_others_are_refused() -> None:
    assert LiberoOptions().sentence == "scene"
    assert parse_options(LiberoOptions, ["--sentence=name"], program="test").sentence == "name"
    with pytest.raises(BadOption, match="sentence"):
        parse_options(LiberoOptions, ["--sentence=file"], program="test")


def test_the_names_words_are_refused_only_where_the_task_has_others() -> None:
    for suite in ("libero_goal_lan", "libero_10_task"):
        check_sentence(suite, "scene")
        with pytest.raises(BadOption, match=f"the tasks of {suite}") as caught:
            check_sentence(suite, "name")
        assert "sentence=scene" in caught.value.hint
    for suite in ("libero_goal", "libero_goal_swap", "libero_object_object", "libero_study_table"):
        check_sentence(suite, "name")


@pytest.mark.simulator
def test_names_are_read_as_the_benchmark_reads_them() -> None:
    benchmark = pytest.importorskip("libero.libero.benchmark")
    for suite in SUITES:
        for task in suite.tasks:
            expected = benchmark.grab_language_from_filename(f"{task}.bddl")
            assert sentence_in_name(task) == expected


@pytest.mark.simulator
def test_the_two_sentences_differ_in_25_tasks_of_the_test_suites() -> None:
    pytest.importorskip("libero.libero")
    assert {suite.name: differing(suite) for suite in SUITES if suite.name in FIELD} == FIELD


@pytest.mark.simulator
def test_variants_that_keep_their_sentences_differ_where_liberos_do() -> None:
    pytest.importorskip("libero.libero")
    for suite in PRO_SUITES:
        if suite.name.endswith(("_lan", "_task")):
            assert differing(suite) == 10, suite.name  # and so the names' words are refused
        elif suite.name.endswith(("_object", "_swap")):
            assert differing(suite) == FIELD[suite.variant_of], suite.name
        elif suite.name != "libero_object_two_normal_episodes":
            assert differing(suite) == 0, suite.name


@pytest.mark.simulator
def test_a_simulator_tells_the_model_the_sentence_that_was_asked_for() -> None:
    pytest.importorskip("libero.libero")
    from rpent_box.sim.platform import Scene
    from rpent_box_libero.platform import LiberoPlatform

    platform = LiberoPlatform.open(LiberoOptions(sentence="name"))
    try:
        seen = platform.reset(Scene(suite="libero_spatial", task=1, init_state=0, seed=7))
    finally:
        platform.close()
    assert seen.instruction == (
        "pick up the black bowl next to the ramekin and place it on the plate"
    )


def differing(suite: Suite) -> int:
    from rpent_box_libero.tasks import find_task

    return sum(
        find_task(suite.name, task).instruction() != sentence_in_name(task) for task in suite.tasks
    )
